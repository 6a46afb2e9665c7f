"""Provenance of a checkpoint: its settings and progress as JSON, and as a model card."""

import os
import re
from typing import Any

import fairseq
import torch

from .. import __version__
from .files import get_architecture, get_cfg_section

# Loading the model needs all of these sections. Of the others, these fields document the training.
_SECTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler")
_FIELDS = {
    "common": ("seed", "fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16"),
    "dataset": ("batch_size", "max_tokens"),
    "optimization": ("lr", "update_freq", "max_update", "max_epoch", "clip_norm"),
    "distributed_training": ("distributed_world_size",),
    "checkpoint": ("best_checkpoint_metric",),
}


def collect_provenance(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Settings and progress of a checkpoint as JSON values; paths are reduced to their last part.

    Returns:
        ``cfg`` in the checkpoint's layout; ``num_updates``, ``epoch``, ``val_loss`` and ``best``, each None if unknown;
        ``versions``; ``imported``, the ``transformers`` model that the weights come from, if any.
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
    imported = {"imported": earlier["imported"]} if "imported" in earlier else {}
    return {
        **imported,
        "cfg": cfg,
        "num_updates": history[-1].get("num_updates"),
        "epoch": _plain((extra.get("train_iterator") or {}).get("epoch")),
        "val_loss": _plain(extra.get("val_loss")),
        "best": _plain(extra.get("best")),
        "versions": {"fairseq": earlier.get("fairseq") or fairseq.__version__, "fairseq_linformer": __version__},
    }


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


def build_model_card(
    details: dict[str, Any], shape: Any, head: str | None, labels: list[str], has_tokenizer: bool
) -> str:
    """Build the model card, README.md of an exported folder.

    Args:
        details: from ``collect_provenance``.
        shape: the ``LinformerConfig``.
        head: name of the exported classification head, or None.
        labels: its labels.
        has_tokenizer: the folder contains a tokenizer.
    """
    cfg = details["cfg"]
    task, dataset, optimization = (cfg.get(name, {}) for name in ("task", "dataset", "optimization"))
    rows = [
        ("architecture", cfg["model"]["_name"]),
        ("n, the longest input", shape.max_positions),
        ("k, the projected dimension", shape.projected_dim),
        ("sharing of E and F", shape.sharing),
        ("layers, embedding dimension, heads", f"{shape.layers}, {shape.embed_dim}, {shape.attention_heads}"),
        ("dictionary", f"{shape.vocab_size} entries"),
        ("classification head", head and f"{head}: {', '.join(labels)}"),
        ("task", task.get("_name")),
        ("data", task.get("data")),
        ("updates", details["num_updates"]),
        ("epoch", details["epoch"]),
        ("validation loss", details["val_loss"]),
        (f"best {cfg.get('checkpoint', {}).get('best_checkpoint_metric', 'value')}", details["best"]),
        ("optimizer", cfg.get("optimizer", {}).get("_name")),
        ("learning rate", optimization.get("lr")),
        ("schedule", cfg.get("lr_scheduler", {}).get("_name")),
        ("sentences per batch", dataset.get("batch_size")),
        ("maximum tokens per batch", dataset.get("max_tokens")),
        ("batches per update", optimization.get("update_freq")),
        ("processes", cfg.get("distributed_training", {}).get("distributed_world_size")),
        ("seed", cfg.get("common", {}).get("seed")),
        ("imported from", details.get("imported", {}).get("name")),
        ("masked LM head", details.get("imported", {}).get("lm_head")),
        ("fairseq", details["versions"]["fairseq"]),
        ("fairseq-linformer", details["versions"]["fairseq_linformer"]),
    ]
    pipeline = "text-classification" if head else "fill-mask"
    auto = "AutoModelForSequenceClassification" if head else "AutoModelForMaskedLM"
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {pipeline}",
        "tags:",
        "- linformer",
        "- fairseq",
        "---",
        "",
        "# Linformer",
        "",
        "A RoBERTa with the linear attention of the [Linformer](https://arxiv.org/abs/2006.04768), trained with "
        "fairseq and converted by fairseq-linformer. The model code is in this folder.",
        "",
        "    from transformers import " + auto + ", pipeline",
        "",
        f'    model = {auto}.from_pretrained("FOLDER", trust_remote_code=True)',
    ]
    if has_tokenizer:
        lines.append(f'    pipe = pipeline("{pipeline}", "FOLDER", trust_remote_code=True)')
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name} | {_format_cell(value)} |" for name, value in rows if value not in (None, "")]
    lines += [
        "",
        "Values that are not listed were not in the checkpoint. `config.json` has all settings under `fairseq`.",
    ]
    return "\n".join(lines) + "\n"


def _format_cell(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
