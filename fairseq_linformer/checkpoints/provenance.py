"""Provenance of a checkpoint as JSON: its settings and progress, and where its weights come from."""

import os
import re
from pathlib import Path
from typing import Any

import fairseq
import torch

from .. import __version__
from ..files import read_json
from .files import RESULT, get_architecture, get_cfg_section

# Loading the model needs all of these sections. Of the others, these fields document the training.
_SECTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler")
_FIELDS = {
    "common": ("seed", "fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16"),
    "dataset": ("batch_size", "max_tokens"),
    "optimization": ("lr", "update_freq", "max_update", "max_epoch", "clip_norm"),
    "distributed_training": ("distributed_world_size",),
    "checkpoint": ("best_checkpoint_metric",),
}


ORIGINS = ("imported", "distilled")
"""Entries of a checkpoint's ``provenance`` that say where its weights come from."""


def collect_provenance(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Settings and progress of a checkpoint as JSON values; paths are reduced to their last part.

    Returns:
        ``cfg`` in the checkpoint's layout; ``num_updates``, ``epoch``, ``val_loss`` and ``best``, each None if unknown;
        ``versions``; ``imported``, the ``transformers`` model that the weights come from, and ``distilled``, the report
        of ``linearize``, if any.
    """
    extra = checkpoint.get("extra_state") or {}
    history = checkpoint.get("optimizer_history") or [{}]
    sections = {name: get_cfg_section(checkpoint, name) for name in (*_SECTIONS, *_FIELDS)}
    sections["model"]["_name"] = get_architecture(checkpoint)
    cfg = {}
    for name, values in sections.items():
        kept = {key: value for key, value in values.items() if name in _SECTIONS or key in _FIELDS[name]}
        if values:  # no model option is a path, and slashes separate the k of heads
            cfg[name] = _plain(kept, paths=name != "model")
    earlier = checkpoint.get("provenance") or {}
    return {
        **{key: earlier[key] for key in ORIGINS if key in earlier},
        "cfg": cfg,
        "num_updates": history[-1].get("num_updates"),
        "epoch": _plain((extra.get("train_iterator") or {}).get("epoch")),
        "val_loss": _plain(extra.get("val_loss")),
        "best": _plain(extra.get("best")),
        "versions": {"fairseq": earlier.get("fairseq") or fairseq.__version__, "fairseq_linformer": __version__},
    }


def read_finetuning(checkpoint) -> dict[str, Any]:
    """The scores of ``finetune``, if this is the checkpoint that it scored.

    Returns:
        ``finetuned``: ``task``, ``splits`` with the scores, ``data``, ``hardware`` and ``commit``; and the origins of
        the checkpoint that was finetuned. Empty without a result.

    Raises:
        ValueError: the result is damaged.
    """
    path = Path(checkpoint).absolute().parent.parent / RESULT
    if not path.is_file() or not path.with_name("config.yaml").is_file():  # not a run folder
        return {}
    try:
        result = read_json(path)
        if path.parent / result["checkpoint"] != Path(checkpoint).absolute():
            return {}
        finetuned = {key: result[key] for key in ("task", "splits", "data", "hardware", "commit")}
        initial = {} if result["model"]["from_scratch"] else result["model"]["pretraining"]
        return {"finetuned": finetuned, **{key: initial[key] for key in ORIGINS if key in initial}}
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; delete it, and rerun `fairseq-linformer finetune`") from None


def _plain(value: Any, paths: bool = True) -> Any:
    """Convert a value to JSON types; with ``paths``, reduce each path to its last part."""
    if isinstance(value, dict):
        return {str(key): _plain(item, paths) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, paths) for item in value]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    if not paths or ("/" not in text and "\\" not in text):
        return text
    # Colons separate fairseq's data folders.
    return ":".join(os.path.basename(re.sub(r"[\\/]+", "/", part).rstrip("/")) for part in text.split(":"))
