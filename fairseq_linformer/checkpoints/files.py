"""Checkpoints as files: read as weights only, written whole or not at all."""

import os
import re
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..files import atomic
from ..models.options import resolve, to_linformer_config
from ..models.shapes import ATTENTION_HEADS, EMBEDDINGS, PADDING_IDX


def read_checkpoint(path) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta``, of the authors' model or of ``roberta``, as fairseq saves it: ``model``,
    ``cfg``, ``extra_state``, ... It is read as weights only: code in it is not run.

    Those older than fairseq 0.12 have ``args`` in place of ``cfg``; they are given one.

    Raises:
        ValueError: it is not a file, is truncated, contains code, or is not a checkpoint of an encoder such as RoBERTa;
            one sentence.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; it must be a checkpoint of fairseq")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # torch fails in many ways on what is no pickle
        if code := re.search(r"[Uu]nsupported (?:global: GLOBAL|GLOBAL|class) (\S+)", str(error)):
            raise ValueError(
                f"{path} carries code ({code[1]}); a checkpoint may hold weights and settings only"
            ) from None
        raise ValueError(f"{path} cannot be read as a checkpoint: it is cut short, or not a file of PyTorch") from None
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ValueError(f"{path} has no model in it; it must be a checkpoint of fairseq")
    if isinstance(checkpoint.get("args"), Namespace):
        checkpoint = _with_cfg(checkpoint)
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or cfg.get("model") is None or cfg.get("task") is None:
        raise ValueError(f"{path} has neither cfg nor args; it does not say what model it is")
    for name in ("embed_tokens", "embed_positions"):
        if not any(key.endswith(f"sentence_encoder.{name}.weight") for key in checkpoint["model"]):
            raise ValueError(
                f"{path} has no sentence_encoder.{name}.weight and is of architecture {architecture(checkpoint)!r}; "
                "it must be linformer_roberta or roberta"
            )
    option, buffer = node(checkpoint, "model").get("encoder_attention_heads"), checkpoint["model"].get(ATTENTION_HEADS)
    if option is not None and buffer is not None and option != int(buffer):
        raise ValueError(
            f"{path} has encoder_attention_heads {option} in its cfg and {int(buffer)} in its weights, which must agree"
        )
    return checkpoint


def training_seconds(path, start=None) -> float:
    """Training time up to a checkpoint, over all stops.

    Args:
        start: the checkpoint that it started from, if any, whose time fairseq adds to.

    Raises:
        ValueError: as ``read_checkpoint``.
    """
    until, before = (
        read_checkpoint(each).get("extra_state", {}).get("previous_training_time", 0.0) if each else 0.0
        for each in (path, start)
    )
    return float(until) - float(before)


def is_fairseq(checkpoint: str) -> bool:
    """Does a command mean a file of fairseq, or else a folder or a name for transformers?"""
    return Path(checkpoint).is_file() or Path(checkpoint).suffix == ".pt"


def _with_cfg(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """An old checkpoint in the layout of fairseq 0.12, as fairseq itself would read it."""
    from fairseq.checkpoint_utils import _upgrade_state_dict
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    checkpoint = _upgrade_state_dict(checkpoint)
    cfg = convert_namespace_to_omegaconf(checkpoint.pop("args"))
    return {**checkpoint, "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)}


def node(checkpoint: Dict[str, Any], name: str) -> Dict[str, Any]:
    """A copy of a part of the ``cfg``; empty if there is none. fairseq keeps some as a Namespace."""
    value = checkpoint["cfg"].get(name)
    return dict(value if isinstance(value, dict) else vars(value) if value is not None else {})


def architecture(checkpoint: Dict[str, Any]) -> Any:
    """Which architecture a checkpoint says that it is."""
    model = node(checkpoint, "model")
    return model.get("_name") or model.get("arch")


def resolved(options: Mapping[str, Any], state: Dict[str, Tensor]) -> Tuple[Namespace, LinformerConfig]:
    """All options of a model, and the shape of its encoder.

    Args:
        options: those that are given, with ``_name`` or ``arch`` and ``max_positions``.
        state: its state dict, whose embeddings count the dictionary.

    Raises:
        ValueError: an option is not allowed, or they do not fit each other.
    """
    args = resolve(Namespace(**options))
    return args, to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)


def derived(checkpoint: Dict[str, Any], model: Dict[str, Tensor], options: Mapping[str, Any]) -> Dict[str, Any]:
    """A checkpoint to train on from, with another model in it; the old one is not changed.

    Args:
        model: the new state dict.
        options: all options of the new model; the task makes samples of its ``max_positions``.

    Returns:
        it, without the optimizer's state, which fits no longer, and without moving averages.
    """
    task = node(checkpoint, "task")
    lengths = ("max_positions", "tokens_per_sample", "max_source_positions")
    task.update({key: options["max_positions"] for key in lengths if key in task})
    new = {key: value for key, value in checkpoint.items() if key != "last_optimizer_state"}
    new["extra_state"] = {key: value for key, value in checkpoint.get("extra_state", {}).items() if key != "ema"}
    new["model"] = model
    same = isinstance(checkpoint["cfg"]["task"], dict)
    new["cfg"] = {**checkpoint["cfg"], "model": dict(options), "task": task if same else Namespace(**task)}
    return new


def write_checkpoint(checkpoint: Dict[str, Any], path) -> None:
    """Write a checkpoint.

    Raises:
        ValueError: the file exists, or its folder does not.
    """
    check_new_file(path)
    with atomic(path, "wb") as file:
        torch.save(checkpoint, file)


def check_new_file(path) -> None:
    """Refuse, before the work, what could not be written after it."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists; nothing is overwritten")
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; {Path(path).name} cannot be written there")
