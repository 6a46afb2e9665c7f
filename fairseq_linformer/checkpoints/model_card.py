"""The model card, README.md of an exported folder."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OnnxUsage:
    """What a model card says only of an ONNX folder.

    Attributes:
        summary: a sentence about inputs and outputs.
        lines: Markdown of the code that runs the model.
        rows: rows of the table.
    """

    summary: str
    lines: list[str]
    rows: list[tuple[str, Any]]


def build_model_card(
    details: dict[str, Any],
    shape: Any,
    head: str | None,
    labels: list[str],
    tokenizer: str | None,
    onnx: OnnxUsage | None = None,
) -> str:
    """Build the model card, README.md of an exported folder.

    Args:
        details: from ``collect_provenance``; empty if unknown.
        shape: the ``LinformerConfig``.
        head: name of the exported classification head, or None.
        labels: its labels.
        tokenizer: kind of the tokenizer in the folder; None if it has none.
        onnx: how to use the folder if it is for ONNX; None if it is for ``transformers``.
    """
    cfg = details.get("cfg", {})
    task, dataset, optimization = (cfg.get(name, {}) for name in ("task", "dataset", "optimization"))
    imported, distilled, versions = (details.get(name) or {} for name in ("imported", "distilled", "versions"))
    metric = cfg.get("checkpoint", {}).get("best_checkpoint_metric", "loss")  # fairseq stores its value as val_loss
    rows = [
        *(onnx.rows if onnx else ()),
        ("architecture", cfg.get("model", {}).get("_name")),
        ("n, the longest input", shape.max_positions),
        ("k, the projected dimension", shape.projected_dim),
        ("sharing of E and F", shape.sharing),
        ("layers, embedding dimension, heads", f"{shape.layers}, {shape.embed_dim}, {shape.attention_heads}"),
        ("dictionary", f"{shape.vocab_size} entries"),
        ("tokenizer", tokenizer),
        ("classification head", head and f"{head}: {', '.join(labels)}"),
        ("task", task.get("_name")),
        ("data", task.get("data")),
        ("updates", details.get("num_updates")),
        ("epoch", details.get("epoch")),
        (f"validation {metric}", details.get("val_loss")),
        (f"best {metric}", details.get("best")),
        ("optimizer", cfg.get("optimizer", {}).get("_name")),
        ("learning rate", optimization.get("lr")),
        ("schedule", cfg.get("lr_scheduler", {}).get("_name")),
        ("sentences per batch", dataset.get("batch_size")),
        ("maximum tokens per batch", dataset.get("max_tokens")),
        ("batches per update", optimization.get("update_freq")),
        ("processes", cfg.get("distributed_training", {}).get("distributed_world_size")),
        ("seed", cfg.get("common", {}).get("seed")),
        ("imported from", imported.get("name")),
        ("license of the imported weights", imported.get("license")),
        ("masked LM head", imported.get("lm_head")),
        ("distilled from", (imported.get("name") or distilled.get("source")) if distilled else None),
        ("tokens of distillation, at most", distilled.get("tokens_at_most")),
        ("explained variance of the Transformer's last layer", _last_share(distilled)),
        *_score_rows(details.get("finetuned") or {}),
        ("fairseq", versions.get("fairseq")),
        ("fairseq-linformer", versions.get("fairseq_linformer")),
    ]
    pipeline = "text-classification" if head else "fill-mask"
    auto = "AutoModelForSequenceClassification" if head else "AutoModelForMaskedLM"
    usage = [
        "    from transformers import " + auto + ", pipeline",
        "",
        f'    model = {auto}.from_pretrained("FOLDER", trust_remote_code=True)',
    ]
    if tokenizer:
        usage.append(f'    pipe = pipeline("{pipeline}", "FOLDER", trust_remote_code=True)')
    origin = "trained with fairseq and converted" if details else "exported"
    lines = [
        "---",
        f"library_name: {'onnx' if onnx else 'transformers'}",
        f"pipeline_tag: {pipeline}",
        "tags:",
        "- linformer",
        "- fairseq",
        *([f"license: {_format_yaml(imported['license'])}"] if imported.get("license") else []),
        *([f"base_model: {_format_yaml(imported['hub'])}"] if imported.get("hub") else []),
        "---",
        "",
        "# Linformer",
        "",
        f"A RoBERTa with the linear attention of the [Linformer](https://arxiv.org/abs/2006.04768), {origin} by "
        f"fairseq-linformer. {onnx.summary if onnx else 'The model code is in this folder.'}",
        "",
        *(onnx.lines if onnx else usage),
    ]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name} | {_format_cell(value)} |" for name, value in rows if value not in (None, "")]
    if details:
        lines += [
            "",
            "Values that are not listed were not in the checkpoint. `config.json` has all settings under `fairseq`.",
        ]
    if imported:
        lines += ["", *_describe_origin(imported)]
    return "\n".join(lines) + "\n"


def _last_share(distilled: dict[str, Any]) -> str | None:
    shares = distilled.get("variance_after")
    return f"{shares[-1]:.3f}" if shares else None


def _score_rows(finetuned: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Rows of the scores on each development set, with their 95 % intervals, and of the data."""
    for split, result in finetuned.get("splits", {}).items():
        for name, score in result["scores"].items():
            low, high = score["interval"]
            text = f"{score['value']:.4f} ({low:.4f} to {high:.4f}), {result['rows']:,} rows"
            yield f"{finetuned['task']} {split}, {name}", text
    if finetuned:
        yield "data of finetuning", finetuned["data"]
        yield "commit of the code", finetuned["commit"]


def _describe_origin(imported: dict[str, Any]) -> list[str]:
    """Name, checksum and license notice of imported weights, and the Linformer's citation."""
    name = _escape(imported.get("hub") or imported["name"])
    is_hub = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", imported.get("hub") or "")
    where = f"[{name}](https://huggingface.co/{name})" if is_hub else name
    return [
        f"The weights come from {where} (SHA-256 {_escape(str(imported['sha256']))}); its license applies to "
        "this model; cite its authors too. The attention is that of the Linformer:",
        "",
        "    @article{wang2020linformer,",
        "      title={Linformer: Self-Attention with Linear Complexity},",
        "      author={Wang, Sinong and Li, Belinda Z. and Khabsa, Madian and Fang, Han and Ma, Hao},",
        "      journal={arXiv preprint arXiv:2006.04768},",
        "      year={2020}",
        "    }",
    ]


def _format_cell(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return _escape(text).replace("|", "\\|")


def _format_yaml(text: str) -> str:
    """A scalar of the front matter; JSON is YAML."""
    return text if re.fullmatch(r"[\w./-]+", text) else json.dumps(text)


def _escape(text: str) -> str:
    """Escape text of a checkpoint for a line of Markdown, in which it is neither HTML nor a link."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("<", "&lt;").replace("[", "\\[").replace("`", "\\`")
