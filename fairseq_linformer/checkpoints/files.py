"""Checkpoint files: loaded weights-only, written atomically, with dictionary and tokenizer next to them."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..data.manifest import MANIFEST
from ..data.tokenizer_files import DICTIONARY, find_tokenizer_files, list_tokenizer_files
from ..files import open_atomic, write_files
from .identify import MODEL

LABELS = f"label/{DICTIONARY}"
"""fairseq's dictionary of classes, in a folder of data and next to a finetuned checkpoint."""
MODULES_FOLDER = "sentence_transformers"
"""Folder of an encoder's modules, see ``sentence_transformers.py``, next to its checkpoint."""

Files = dict[str, bytes]
"""Contents of files, by path in a folder; in that of a checkpoint: dictionary, tokenizer, labels and modules."""


def read_checkpoint(path) -> dict[str, Any]:
    """Read a fairseq checkpoint of ``linformer_roberta``, ``roberta`` or the authors' plugin.

    Code in it is not run. Checkpoints from before fairseq 0.12 have ``args``, from which ``cfg`` is built.

    Returns:
        What fairseq saved: ``model``, ``cfg``, ``extra_state``, ...
    """
    # Not at the top: an exported folder is evaluated without fairseq.
    from fairseq.checkpoint_utils import _upgrade_state_dict
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    from ..models.fairseq_fixes import check_settings, load_weights_only
    from ..models.options import ARCHITECTURES
    from ..models.state_dicts import drop_old_buffers

    checkpoint = load_weights_only(path)
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("model"), dict):
        raise ValueError(f"{path} has no 'model'; expected a fairseq checkpoint")
    check_settings(path, checkpoint)
    if isinstance(checkpoint.get("args"), Namespace):
        checkpoint = _upgrade_state_dict(checkpoint)  # as fairseq itself does
        upgraded = convert_namespace_to_omegaconf(checkpoint.pop("args"))
        checkpoint["cfg"] = OmegaConf.to_container(upgraded, resolve=True, enum_to_str=True)
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or cfg.get("model") is None or cfg.get("task") is None:
        raise ValueError(f"{path} has neither 'cfg' nor 'args', which define the model")
    for name in ("embed_tokens", "embed_positions"):
        if not any(key.endswith(f"sentence_encoder.{name}.weight") for key in checkpoint["model"]):
            raise ValueError(
                f"{path} must be a checkpoint of linformer_roberta or roberta, got architecture "
                f"{get_architecture(checkpoint)!r} without sentence_encoder.{name}.weight"
            )
    drop_old_buffers(checkpoint["model"], is_ours=get_architecture(checkpoint) in ARCHITECTURES)
    return checkpoint


def training_seconds(path, start) -> float:
    """Seconds of training up to a checkpoint, over all attempts.

    Args:
        start: checkpoint that training started from, whose seconds fairseq includes and this excludes; None if there
            is none.
    """
    until, before = (
        read_checkpoint(each).get("extra_state", {}).get("previous_training_time", 0.0) if each else 0.0
        for each in (path, start)
    )
    return float(until) - float(before)


def get_cfg_section(checkpoint: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy of a section of ``cfg``, empty if it is missing. fairseq stores some sections as a Namespace."""
    section = checkpoint["cfg"].get(name) or {}
    return dict(vars(section) if isinstance(section, Namespace) else section)


def get_architecture(checkpoint: dict[str, Any]) -> Any:
    """The name of the checkpoint's architecture, from its ``cfg``."""
    model = get_cfg_section(checkpoint, "model")
    return model.get("_name") or model.get("arch")


def resolve_model(options: Mapping[str, Any], state: dict[str, Tensor]) -> tuple[Namespace, LinformerConfig]:
    """Fill in the defaults of a model's options, and build the configuration of its encoder.

    Args:
        options: options that are set, among them ``_name`` or ``arch``, and ``max_positions``.
        state: state dict of the model; its embeddings give the size of the dictionary.
    """
    from ..models.options import resolve_options, to_linformer_config
    from ..models.state_dicts import EMBEDDINGS, PADDING_IDX

    args = resolve_options(Namespace(**options))
    return args, to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)


def build_checkpoint(cfg: Mapping[str, Any], state: dict[str, Tensor], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Build a checkpoint as fairseq saves it, without optimizer state.

    Args:
        cfg: sections of fairseq's configuration, at least ``model`` and ``task``.
        state: state dict of the model.
        provenance: where the weights are from; ``collect_provenance`` reads it.
    """
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    return {
        "args": None,
        # fairseq's hub interface sets values in the first three sections, which must exist.
        "cfg": {"_name": None, "bpe": None, "tokenizer": None, **cfg},
        "model": state,
        "criterion": None,
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1}},
        "provenance": dict(provenance),
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
    new_task = type(checkpoint["cfg"]["task"])(**task)  # a dict or a Namespace
    new = {
        **checkpoint,
        "extra_state": {key: value for key, value in checkpoint.get("extra_state", {}).items() if key != "ema"},
        "model": model,
        "cfg": {**checkpoint["cfg"], "model": dict(options), "task": new_task},
    }
    new.pop("last_optimizer_state", None)
    return new


def write_model(folder: Path, checkpoint: dict[str, Any], files: Files) -> None:
    """Write ``model.pt`` and the files that belong next to it to a folder."""
    write_checkpoint(checkpoint, folder / MODEL)
    write_files(folder, files)


def open_session(graph: Path, threads: int) -> Any:
    """Load a graph on the CPU; raises errors of many types, since those of ``onnxruntime`` have no common base."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def find_companions(path, checkpoint: dict[str, Any]) -> Path:
    """The folder with dictionary and tokenizer of a checkpoint: its own, else that of the data it was trained on."""
    folder, data = Path(path).parent, get_cfg_section(checkpoint, "task").get("data")
    if not data or find_tokenizer_files(folder):
        return folder
    first = Path(str(data).split(os.pathsep)[0])
    return first if find_tokenizer_files(first) and (first / DICTIONARY).is_file() else folder


def find_labels(path, checkpoint: dict[str, Any], classes: int) -> Path | None:
    """``dict.txt`` of the labels of a head: next to its checkpoint, else in the data that it was trained on, if these
    have as many classes; None if in neither."""
    if (own := Path(path).parent / LABELS).is_file():
        return own
    data = get_cfg_section(checkpoint, "task").get("data")
    if not data or not (labels := Path(data) / LABELS).is_file():
        return None
    names = labels.read_text(encoding="utf-8").splitlines()
    return labels if sum(not name.startswith("madeupword") for name in names) == classes else None


def read_companions(folder: Path, dictionary=None) -> Files:
    """Read the files that belong next to a checkpoint.

    Args:
        folder: that of the checkpoint.
        dictionary: ``dict.txt`` with the tokenizer next to it; None for those in ``folder``.

    Returns:
        Dictionary with its tokenizer, dictionary of labels, manifest and modules, as far as they exist.
    """
    if dictionary and not Path(dictionary).is_file():
        raise ValueError(f"--dictionary {dictionary} does not exist")
    dictionary = Path(dictionary or folder / DICTIONARY)
    tokenizer = find_tokenizer_files(dictionary.parent) if dictionary.is_file() else None
    paths = {path.name: path for path in (list_tokenizer_files(tokenizer) if tokenizer else ())}
    paths |= {name: folder / name for name in (f"input0/{DICTIONARY}", LABELS, MANIFEST)}
    paths |= {path.relative_to(folder).as_posix(): path for path in (folder / MODULES_FOLDER).rglob("*")}
    return {name: path.read_bytes() for name, path in {DICTIONARY: dictionary, **paths}.items() if path.is_file()}


def put_modules(modules: Files) -> Files:
    """The modules of ``sentence_transformers.py`` as files next to a checkpoint."""
    return {f"{MODULES_FOLDER}/{name}": content for name, content in modules.items()}


def write_checkpoint(checkpoint: dict[str, Any], path) -> None:
    """Write a checkpoint atomically, replacing the file if it exists."""
    with open_atomic(path, "wb") as file:
        torch.save(checkpoint, file)


def finish_checkpoint(path, provenance: Mapping[str, Any]) -> None:
    """Remove from a checkpoint what only resuming needs, most of the file, and add where its weights are from."""
    checkpoint = read_checkpoint(path)
    checkpoint.pop("last_optimizer_state", None)
    write_checkpoint({**checkpoint, "provenance": dict(provenance)}, path)
