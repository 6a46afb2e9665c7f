"""The model card, README.md of an exported folder: how to run the model, what it is, its scores, and its license."""

import json
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .. import __version__
from ..data.tasks import OWN
from ..data.tokenizer_files import TOKENIZER_JSON
from ..huggingface import LinformerPreTrainedConfig
from .sentence_transformers import POOLINGS, recorded_pooling

_TEMPLATE = """\
---
{{ card_data }}
---

# Linformer

A RoBERTa with the linear attention of the [Linformer](https://arxiv.org/abs/2006.04768), exported by fairseq-linformer.
{%- if onnx %}
`model.onnx` reads any number of sentences of up to {{ onnx.max_positions }} tokens, padded on the right, and returns
{{ output }} {{ shape }}. It needs neither PyTorch nor fairseq:

```python
import numpy as np
import onnxruntime
{%- if tokenizer %}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
batch = tokenizer.encode_batch({{ texts }})
input_ids = np.array([row.ids for row in batch])
attention_mask = np.array([row.attention_mask for row in batch])
{%- else %}
input_ids = np.array([[0, 5, 6, 2], [0, 7, 2, 1]])  # <s> ... </s>, and <pad> after a shorter one
attention_mask = (input_ids != 1).astype(np.int64)
{%- endif %}
session = onnxruntime.InferenceSession("FOLDER/model.onnx")
({{ output }},) = session.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})
print({{ result }})
```
{%- else %}
The model code is in this folder.

```python
from transformers import {{ auto_class }}, pipeline

model = {{ auto_class }}.from_pretrained("FOLDER", trust_remote_code=True)
{%- if tokenizer %}
pipe = pipeline("{{ task }}", "FOLDER"{% if has_head %}, truncation=True{% endif %}, trust_remote_code=True)
{%- endif %}
```
{%- if pooling %}

With sentence-transformers:

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER", trust_remote_code=True).encode(["A sentence."])
```
{%- endif %}
{%- endif %}

| | |
|---|---|
{%- for name, value in rows %}
| {{ name }} | {{ value }} |
{%- endfor %}
{%- if origin %}

The weights come from {{ origin }} (SHA-256 {{ sha256 }}); its license applies to this model; cite its authors too.
{%- endif %}
"""
_KINDS = {
    "LinformerForSequenceClassification": (
        "AutoModelForSequenceClassification",
        "text-classification",
        "(sentences, classes)",
    ),
    "LinformerForMaskedLM": ("AutoModelForMaskedLM", "fill-mask", "(sentences, tokens, entries of the dictionary)"),
    "LinformerModel": ("AutoModel", "feature-extraction", "(sentences, tokens, width)"),
}
"""Class of a model -> auto class, task, and shape of the output."""


def write_card(
    folder: Path, config: LinformerPreTrainedConfig, onnx: dict[str, Any] | None = None, pooling: str | None = None
) -> None:
    """Write the model card of a folder, whose tokenizer has been written.

    Args:
        config: that of the model; ``fairseq`` has its provenance.
        onnx: ``max_positions``, ``int8`` and ``pooling`` of the graph; None if the folder is for ``transformers``.
        pooling: that of a folder that ``sentence-transformers`` opens.
    """
    files = {"fast": TOKENIZER_JSON, "slow": "tokenizer_config.json"}
    tokenizer = next((kind for kind, name in files.items() if (folder / name).is_file()), None)
    details = config.fairseq or {}
    imported, distilled, finetuned = (details.get(name) or {} for name in ("imported", "distilled", "finetuned"))
    auto_class, task, shape = _KINDS[config.architectures[0]]
    if onnx and onnx["pooling"] in POOLINGS:
        shape = "(sentences, width)"
    has_head = task == "text-classification"
    labels = [config.id2label[i] for i in range(config.num_labels)] if has_head else []
    scores = [
        (split, name, score, result["rows"])
        for split, result in finetuned.get("splits", {}).items()
        for name, score in result["scores"].items()
        if has_head
    ]
    data = "own data" if finetuned.get("task") == OWN else finetuned.get("task", "")
    vectors = onnx["pooling"] if onnx else pooling
    is_normalized = vectors in POOLINGS and recorded_pooling(config).get("normalize")
    variance = distilled.get("variance_after")
    rows = [
        ("n, the longest input", config.max_positions),
        ("k, the projected dimension", config.projected_dim),
        ("sharing of E and F", config.sharing),
        ("local window", config.local_window),
        ("layers, width, heads", f"{config.layers}, {config.embed_dim}, {config.attention_heads}"),
        ("dictionary", f"{config.vocab_size:,} entries"),
        ("tokenizer", tokenizer),
        ("weights of the graph", onnx and ("int8, fp32 in norms and classification head" if onnx["int8"] else "fp32")),
        ("classification head", has_head and f"{config.classification_head_name}: {', '.join(labels)}"),
        ("pooling", f"{vectors}, normalized" if is_normalized else vectors),
        ("explained variance of the Transformer's last layer", variance and f"{variance[-1]:.3f}"),
        *((f"{data} {split}, {name}", _format_score(score, num_rows)) for split, name, score, num_rows in scores),
        ("data of finetuning", finetuned.get("data")),
        ("commit of the code", finetuned.get("commit")),
        ("fairseq-linformer", __version__),
    ]
    card_data = ModelCardData(
        library_name="onnx" if onnx else "sentence-transformers" if pooling else "transformers",
        pipeline_tag="sentence-similarity" if pooling else task,
        tags=["linformer", "fairseq"],
        license=imported.get("license"),
        base_model=imported.get("hub"),
        model_name="Linformer" if scores else None,
        eval_results=[
            EvalResult(task, data, data, name, score["value"], dataset_split=split) for split, name, score, _ in scores
        ]
        or None,
    )
    texts = ["A <mask> sentence."] if task == "fill-mask" else ["First sentence.", "Another sentence, which is longer."]
    card = ModelCard.from_template(
        card_data,
        template_str=_TEMPLATE,
        onnx=onnx,
        pooling=pooling,
        has_head=has_head,
        output="features" if onnx and onnx["pooling"] else "logits",
        shape=shape,
        tokenizer=tokenizer,
        texts=json.dumps(texts),
        result=_format_result(config, labels) if onnx and onnx["pooling"] is None else "features.shape",
        auto_class=auto_class,
        task=task,
        rows=[(_escape(name), _escape(value)) for name, value in rows if value not in (None, "", False)],
        origin=_escape(imported.get("hub") or imported.get("name", "")),
        sha256=_escape(imported.get("sha256")),
    )
    (folder / "README.md").write_text(str(card), encoding="utf-8")


def _format_score(score: dict[str, Any], num_rows: int) -> str:
    low, high = score["interval"]
    return f"{score['value']:.4f} ({low:.4f} to {high:.4f}), {num_rows:,} rows"


def _format_result(config: LinformerPreTrainedConfig, labels: list[str]) -> str:
    """The Python expression of what a graph has found."""
    if not labels:
        return "logits.argmax(-1).tolist()"
    if config.problem_type == "regression" or len(labels) == 1:
        return "logits[:, 0].tolist()"
    return f"[{labels!r}[i] for i in logits.argmax(-1)]"


def _escape(value: Any) -> str:
    """Escape text of a checkpoint for a cell of Markdown, in which it is neither HTML nor a link."""
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("<", "&lt;").replace("[", "\\[")
    return text.replace("`", "\\`").replace("|", "\\|")
