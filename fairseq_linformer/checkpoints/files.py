"""Checkpoints as files: read as weights only, written whole or not at all."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict

import torch
from fairseq.checkpoint_utils import _upgrade_state_dict
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from ..files import atomic


def read_checkpoint(path) -> Dict[str, Any]:
    """A checkpoint as fairseq saves it: ``model``, ``cfg``, ``extra_state``, ...

    Those older than fairseq 0.12 have ``args`` in place of ``cfg``; they are given one.

    Raises:
        ValueError: this is no file, no whole one, one that carries code, or no checkpoint of an
            encoder such as RoBERTa's.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file; a checkpoint of fairseq is wanted")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what is no pickle at all makes torch's reader fail in any way
        if "weights_only" in str(error) or "Unsupported" in str(error):
            raise ValueError(f"{path} carries more than weights and options; code in a checkpoint is refused") from None
        raise ValueError(f"{path} cannot be read as a checkpoint: it is cut off, or no such file") from None
    model = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(model, dict) or not any(key.endswith("sentence_encoder.embed_positions.weight") for key in model):
        raise ValueError(f"{path} is no fairseq checkpoint of linformer_roberta or roberta")
    if isinstance(checkpoint.get("args"), Namespace):
        checkpoint = _upgrade_state_dict(checkpoint)
        cfg = convert_namespace_to_omegaconf(checkpoint.pop("args"))
        checkpoint["cfg"] = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or cfg.get("model") is None or cfg.get("task") is None:
        raise ValueError(f"{path} has neither cfg nor args; it does not say what model it is")
    return checkpoint


def write_checkpoint(checkpoint: Dict[str, Any], path) -> None:
    """Write a checkpoint.

    Raises:
        ValueError: the file exists, or its folder does not.
    """
    check_target(path)
    with atomic(path, "wb") as file:
        torch.save(checkpoint, file)


def check_target(path) -> None:
    """Refuse, before the work, what could not be written after it."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists; nothing is overwritten")
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; {Path(path).name} cannot be written there")


def options_of(node: Any) -> Dict[str, Any]:
    """A node of a configuration, a dict or a Namespace, as a dict of its own."""
    return dict(vars(node)) if isinstance(node, Namespace) else dict(node)


def derived(checkpoint: Dict[str, Any], model: Dict[str, Any], options: Dict[str, Any], n: int) -> Dict[str, Any]:
    """A checkpoint to train on from, with another model in it; the old one is not changed.

    Args:
        model: its new state dict.
        options: all options of its new model.
        n: positions of the new model; the task makes samples as long.

    Returns:
        it, without the optimizer's state, which fits no longer, and without moving averages.
    """
    task = options_of(checkpoint["cfg"]["task"])
    task.update({key: n for key in ("max_positions", "tokens_per_sample", "max_source_positions") if key in task})
    new = {key: value for key, value in checkpoint.items() if key != "last_optimizer_state"}
    new["extra_state"] = {key: value for key, value in checkpoint.get("extra_state", {}).items() if key != "ema"}
    new["model"] = model
    same = isinstance(checkpoint["cfg"]["task"], dict)
    new["cfg"] = {**checkpoint["cfg"], "model": options, "task": task if same else Namespace(**task)}
    return new
