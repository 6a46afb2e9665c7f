"""Checkpoint files: loaded weights-only, written atomically."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..files import open_atomic
from ..models.fairseq_fixes import check_settings, load_weights_only
from ..models.options import resolve_options, to_linformer_config
from ..models.shapes import EMBEDDINGS, OLD_BUFFERS, PADDING_IDX
from .transformers_loading import WEIGHTS

ONNX_GRAPH = "model.onnx"
"""File name of the graph in a folder that ``convert to-onnx`` wrote."""


def read_checkpoint(path) -> dict[str, Any]:
    """Read a fairseq checkpoint of ``linformer_roberta``, ``roberta`` or the authors' plugin.

    Code in it is not run. Checkpoints from before fairseq 0.12 have ``args``, from which
    ``cfg`` is built.

    Returns:
        What fairseq saved: ``model``, ``cfg``, ``extra_state``, ...

    Raises:
        ValueError: it is not a file, is truncated, contains code, or is not a checkpoint of such an encoder.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; expected a fairseq checkpoint")
    checkpoint = load_weights_only(path)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ValueError(f"{path} has no 'model'; expected a fairseq checkpoint")
    check_settings(path, checkpoint)
    provenance = checkpoint.get("provenance") or {}
    if not isinstance(provenance, dict) or not isinstance(provenance.get("imported") or {}, dict):
        raise ValueError(f"the provenance of {path} must be a dictionary, or there must be none")
    if "provenance" in checkpoint:
        checkpoint["provenance"] = provenance
    if isinstance(checkpoint.get("args"), Namespace):
        checkpoint = _with_cfg(checkpoint)
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or cfg.get("model") is None or cfg.get("task") is None:
        raise ValueError(f"{path} has neither 'cfg' nor 'args', which define the model")
    for name in ("embed_tokens", "embed_positions"):
        if not any(key.endswith(f"sentence_encoder.{name}.weight") for key in checkpoint["model"]):
            raise ValueError(
                f"{path} must be a checkpoint of linformer_roberta or roberta, got architecture "
                f"{get_architecture(checkpoint)!r} without sentence_encoder.{name}.weight"
            )
    for buffer in OLD_BUFFERS:
        checkpoint["model"].pop(buffer, None)
    return checkpoint


def training_seconds(path, start=None) -> float:
    """Seconds of training up to a checkpoint, over all attempts.

    Args:
        start: checkpoint that training started from, whose seconds fairseq includes and this excludes; None if there
            is none.

    Raises:
        ValueError: as ``read_checkpoint``.
    """
    until, before = (
        read_checkpoint(each).get("extra_state", {}).get("previous_training_time", 0.0) if each else 0.0
        for each in (path, start)
    )
    return float(until) - float(before)


def is_fairseq_checkpoint(checkpoint: str) -> bool:
    """Whether a command's CHECKPOINT is a fairseq file; otherwise it is a folder or hub name for ``transformers``."""
    return Path(checkpoint).is_file() or Path(checkpoint).suffix == ".pt"


def is_onnx_folder(checkpoint: str) -> bool:
    """Whether a command's CHECKPOINT is a folder that ``convert to-onnx`` wrote; those of the hub have weights too."""
    folder = Path(checkpoint)
    return (folder / ONNX_GRAPH).is_file() and not (folder / WEIGHTS).is_file()


def _with_cfg(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Upgrade an old checkpoint to the layout of fairseq 0.12, as fairseq itself does."""
    from fairseq.checkpoint_utils import _upgrade_state_dict
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    checkpoint = _upgrade_state_dict(checkpoint)
    cfg = convert_namespace_to_omegaconf(checkpoint.pop("args"))
    return {**checkpoint, "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)}


def get_cfg_section(checkpoint: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy of a section of ``cfg``, empty if it is missing. fairseq stores some sections as a Namespace."""
    value = checkpoint["cfg"].get(name)
    return dict(value if isinstance(value, dict) else vars(value) if value is not None else {})


def get_architecture(checkpoint: dict[str, Any]) -> Any:
    """The name of the checkpoint's architecture, from its ``cfg``."""
    model = get_cfg_section(checkpoint, "model")
    return model.get("_name") or model.get("arch")


def resolve_model(options: Mapping[str, Any], state: dict[str, Tensor]) -> tuple[Namespace, LinformerConfig]:
    """Fill in the defaults of a model's options, and build the configuration of its encoder.

    Args:
        options: options that are set, among them ``_name`` or ``arch``, and ``max_positions``.
        state: state dict of the model; its embeddings give the size of the dictionary.

    Raises:
        ValueError: an option or combination is not allowed.
    """
    args = resolve_options(Namespace(**options))
    return args, to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)


def build_checkpoint(
    cfg: Mapping[str, Any],
    state: dict[str, Tensor],
    num_updates: int = 0,
    epoch: int = 1,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build a checkpoint as fairseq saves it, without optimizer state.

    Args:
        cfg: sections of fairseq's configuration, at least ``model`` and ``task``.
        state: state dict of the model.
        num_updates, epoch: progress of the training.
        provenance: where the weights are from; ``collect_provenance`` reads it.
    """
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": num_updates}
    return {
        "args": None,
        # fairseq's hub interface sets values in the first three sections, which must exist.
        "cfg": {"_name": None, "bpe": None, "tokenizer": None, **cfg},
        "model": state,
        "criterion": None,
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": epoch}},
        "provenance": dict(provenance or {}),
    }


def replace_model(checkpoint: dict[str, Any], model: dict[str, Tensor], options: Mapping[str, Any]) -> dict[str, Any]:
    """Build a checkpoint with another model, to continue training from; the original is unchanged.

    Args:
        model: new state dict.
        options: all options of the new model. The task's lengths become its ``max_positions``.

    Returns:
        The checkpoint without optimizer state and moving averages, which no longer fit.
    """
    task = get_cfg_section(checkpoint, "task")
    lengths = ("max_positions", "tokens_per_sample", "max_source_positions")
    task.update({key: options["max_positions"] for key in lengths if key in task})
    new = {key: value for key, value in checkpoint.items() if key != "last_optimizer_state"}
    new["extra_state"] = {key: value for key, value in checkpoint.get("extra_state", {}).items() if key != "ema"}
    new["model"] = model
    is_dict = isinstance(checkpoint["cfg"]["task"], dict)
    new["cfg"] = {**checkpoint["cfg"], "model": dict(options), "task": task if is_dict else Namespace(**task)}
    return new


def write_checkpoint(checkpoint: dict[str, Any], path) -> None:
    """Write a checkpoint to a new file.

    Raises:
        ValueError: as ``check_new_file``.
    """
    check_new_file(path)
    replace_checkpoint(checkpoint, path)


def replace_checkpoint(checkpoint: dict[str, Any], path) -> None:
    """Write a checkpoint atomically, replacing the file if it exists."""
    with open_atomic(path, "wb") as file:
        torch.save(checkpoint, file)


def check_new_file(path) -> None:
    """Raise ValueError if ``path`` exists, or its folder does not."""
    if os.path.lexists(path):
        raise ValueError(f"{path} already exists; choose another file")
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {path}: {folder} is not a folder")
