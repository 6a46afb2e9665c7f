"""The model card, README.md of an exported folder: how to run the model, what it is, its scores, and its license."""

import json
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .. import __version__
from ..data.tasks import OWN, TASKS
from ..data.tokenizer_files import TOKENIZER_JSON
from ..huggingface import LinformerPreTrainedConfig
from .identify import ONNX_GRAPH, ONNX_INT8_GRAPH

_TEMPLATE = """\
---
{{ card_data }}
---

# Linformer

A RoBERTa with the linear attention of the [Linformer](https://arxiv.org/abs/2006.04768), exported by fairseq-linformer.
{%- if graph %}
`{{ file }}` reads any number of sentences of up to {{ graph.max_positions }} tokens, padded on the right, and returns
{{ output }} {{ shape }}. It needs `onnxruntime`
{{ "1.26" if graph.int8 else "1.18" }} or later, and neither PyTorch nor fairseq:

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
session = onnxruntime.InferenceSession("FOLDER/{{ file }}")
({{ output }},) = session.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})
print({{ result }})
```

`AutoConfig` of transformers 5 reads this folder with `trust_remote_code=True`.
{%- else %}
The model code is in this folder.

```python
from transformers import {{ auto_class }}, pipeline

model = {{ auto_class }}.from_pretrained("FOLDER", trust_remote_code=True)
{%- if tokenizer %}
pipe = pipeline("{{ task }}", "FOLDER"{% if has_head %}, truncation=True{% endif %}, trust_remote_code=True)
{%- endif %}
```
{%- if vectors %}

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
    "ForSequenceClassification": ("text-classification", "(sentences, classes)"),
    "ForMaskedLM": ("fill-mask", "(sentences, tokens, entries of the dictionary)"),
    "": ("feature-extraction", "(sentences, tokens, width)"),
}
"""Head in the name of a model's class -> task, and shape of the output."""
_METRICS = {"matthews": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr"}
"""Names of scores on the hub, where they differ."""

Graph = dict[str, Any]
"""``max_positions``, ``int8``, and the mode of ``pooling``, or None for logits."""


def write_card(
    folder: Path,
    config: LinformerPreTrainedConfig,
    graph: Graph | None = None,
    vectors: str | None = None,
    license: str | None = None,
) -> None:
    """Write the model card of a folder, whose tokenizer has been written.

    Args:
        config: that of the model; ``fairseq`` has its provenance.
        graph: None if the folder is for ``transformers``.
        vectors: how a vector is made of the features, if it is.
        license: that of the model; None for the imported encoder's.
    """
    files = {"fast": TOKENIZER_JSON, "slow": "tokenizer_config.json"}
    tokenizer = next((kind for kind, name in files.items() if (folder / name).is_file()), None)
    imported = (config.fairseq or {}).get("imported") or {}
    head = config.architectures[0].removeprefix("Linformer").removeprefix("Model")
    task, shape = _KINDS[head]
    pooling = graph and graph["pooling"]
    texts = ["A <mask> sentence."] if task == "fill-mask" else ["First sentence.", "Another sentence, which is longer."]
    card = ModelCard.from_template(
        _describe(config, task, graph, vectors, license),
        template_str=_TEMPLATE,
        graph=graph,
        file=graph and (ONNX_INT8_GRAPH if graph["int8"] else ONNX_GRAPH),
        vectors=vectors,
        has_head=task == "text-classification",
        output="features" if pooling else "logits",
        shape="(sentences, width)" if pooling in ("mean", "cls") else shape,
        tokenizer=tokenizer,
        texts=json.dumps(texts),
        result="features.shape" if pooling else _format_result(config, _labels(config, task)),
        auto_class=f"AutoModel{head}",
        task=task,
        rows=[tuple(map(_escape, row)) for row in _list_rows(config, task, graph, tokenizer, vectors)],
        origin=_escape(imported.get("hub") or imported.get("name", "")),
        sha256=_escape(imported.get("sha256")),
    )
    (folder / "README.md").write_text(str(card), encoding="utf-8")


def _describe(
    config: LinformerPreTrainedConfig, task: str, graph: Graph | None, vectors: str | None, license: str | None
) -> ModelCardData:
    """The metadata that the hub reads."""
    imported, finetuned = ((config.fairseq or {}).get(name) or {} for name in ("imported", "finetuned"))
    results = [
        EvalResult(
            task,
            metric_type=_METRICS.get(name, name),
            metric_value=score["value"],
            **_locate_data(finetuned["task"], split),
        )
        for split, name, score, _ in _list_scores(config, task)
    ]
    data = sorted({result.dataset_type for result in results if "/" in result.dataset_type})
    relation = "quantized" if graph and graph["int8"] else "finetune"
    return ModelCardData(
        library_name="onnx" if graph else "sentence-transformers" if vectors else "transformers",
        pipeline_tag="sentence-similarity" if vectors and not graph else task,
        tags=["linformer", "fairseq"],
        language=imported.get("language") or ("en" if data else None),  # as all of TASKS are
        license=license or imported.get("license"),
        base_model=imported.get("hub"),
        base_model_relation=relation if imported.get("hub") else None,
        datasets=data or None,
        model_name="Linformer" if results else None,
        eval_results=results or None,
    )


def _list_rows(
    config: LinformerPreTrainedConfig, task: str, graph: Graph | None, tokenizer: str | None, vectors: str | None
) -> list[tuple[str, Any]]:
    """The rows of the table: name and value; rows without a value are left out."""
    distilled, finetuned = ((config.fairseq or {}).get(name) or {} for name in ("distilled", "finetuned"))
    labels, variance = _labels(config, task), distilled.get("variance_after")
    weights = graph and ("int8, fp32 in norms and classification head" if graph["int8"] else "fp32")
    rows = [
        ("n, the longest input", config.max_positions),
        ("k, the projected dimension", config.projected_dim),
        ("sharing of E and F", config.sharing),
        ("local window", config.local_window),
        ("layers, width, heads", f"{config.layers}, {config.embed_dim}, {config.attention_heads}"),
        ("dictionary", f"{config.vocab_size:,} entries"),
        ("tokenizer", tokenizer),
        ("weights of the graph", weights),
        ("classification head", labels and f"{config.classification_head_name}: {', '.join(labels)}"),
        ("pooling", vectors),
        ("explained variance of the Transformer's last layer", variance and f"{variance[-1]:.3f}"),
        *(
            (f"{_name_data(finetuned['task'])} {split}, {name}", _format_score(score, num_rows))
            for split, name, score, num_rows in _list_scores(config, task)
        ),
        ("data of finetuning", finetuned.get("data")),
        ("commit of the code", finetuned.get("commit")),
        ("fairseq-linformer", __version__),
    ]
    return [(name, value) for name, value in rows if value not in (None, "", [])]


def _list_scores(config: LinformerPreTrainedConfig, task: str) -> list[tuple[str, str, Any, int]]:
    """The scores of ``finetune``: split, metric, score, and number of rows; none of features."""
    splits = ((config.fairseq or {}).get("finetuned") or {}).get("splits", {}) if task == "text-classification" else {}
    return [
        (split, metric, score, result["rows"])
        for split, result in splits.items()
        for metric, score in result["scores"].items()
    ]


def _locate_data(name: str, split: str) -> dict[str, Any]:
    """Where the hub has the rows of a task's split, as metadata of a score."""
    task = TASKS.get(name)
    if task is None or task.hub is None:
        return {"dataset_type": name, "dataset_name": _name_data(name), "dataset_split": split}
    part, _, file = task.hub.files[split].partition("/")
    return {
        "dataset_type": task.hub_name[0],
        "dataset_name": name,
        "dataset_config": part,
        "dataset_split": file.partition("-")[0],
    }


def _name_data(name: str) -> str:
    return "own data" if name == OWN else name


def _labels(config: LinformerPreTrainedConfig, task: str) -> list[str]:
    """The classes of a classifier; empty for another model."""
    return [config.id2label[i] for i in range(config.num_labels)] if task == "text-classification" else []


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
