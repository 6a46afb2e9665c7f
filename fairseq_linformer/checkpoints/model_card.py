"""The model card, README.md of an exported folder: how to run the model, what it is, its scores, and its license."""

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

# {{ name }}

A RoBERTa {%- if config.projected_dim %} with the linear attention of the [Linformer](https://arxiv.org/abs/2006.04768)
{%- endif %}, exported by fairseq-linformer.
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
batch = tokenizer.encode_batch(
{%- if task == "fill-mask" %}["A <mask> sentence."]{% else %}["First sentence.", "Another sentence, which is longer."]
{%- endif %})
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
from transformers import AutoModel{{ head }}, pipeline

model = AutoModel{{ head }}.from_pretrained("FOLDER", trust_remote_code=True)
{%- if tokenizer %}
pipe = pipeline("{{ task }}", "FOLDER"{{ ", truncation=True" if labels }}, trust_remote_code=True)
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
| n, the longest input | {{ config.max_positions }} |
{%- if config.projected_dim %}
| k, the projected dimension | {{ escape(config.projected_dim) }} |
| sharing of E and F | {{ config.sharing }} |
{%- endif %}
| local window | {{ config.local_window }} |
| layers, width, heads | {{ config.layers }}, {{ config.embed_dim }}, {{ config.attention_heads }} |
| dictionary | {{ "{:,}".format(config.vocab_size) }} entries |
{%- if tokenizer %}
| tokenizer | {{ tokenizer }} |
{%- endif %}
{%- if graph %}
| weights of the graph | {{ "int8, fp32 in norms and classification head" if graph.int8 else "fp32" }} |
{%- endif %}
{%- if labels %}
| classification head | {{ escape(config.classification_head_name ~ ": " ~ labels | join(", ")) }} |
{%- endif %}
{%- if vectors %}
| pooling | {{ escape(vectors) }} |
{%- endif %}
{%- if distilled.variance_after %}
| explained variance of the Transformer's last layer | {{ "%.3f" | format(distilled.variance_after[-1]) }} |
{%- endif %}
{%- for split, result in finetuned.get("splits", {}).items() if labels %}
{%- for metric, score in result.scores.items() %}
| {{ escape(name_data(finetuned.task) ~ " " ~ split ~ ", " ~ metric) }} | {{ "%.4f" | format(score.value) }}
{{- " (%.4f to %.4f), " | format(*score.interval) }}{{ "{:,}".format(result.rows) }} rows |
{%- endfor %}
{%- endfor %}
{%- if finetuned.data %}
| data of finetuning | {{ escape(finetuned.data) }} |
{%- endif %}
{%- if finetuned.commit %}
| commit of the code | {{ escape(finetuned.commit) }} |
{%- endif %}
| fairseq-linformer | {{ version }} |
{%- if imported.hub or imported.name %}

The weights come from {{ escape(imported.hub or imported.name) }} (SHA-256 {{ escape(imported.get("sha256")) }});
{{- "" if config.fairseq.license else " its license applies to this model;" }} cite its authors, too.
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
    folder: Path, config: LinformerPreTrainedConfig, graph: Graph | None = None, vectors: str | None = None
) -> None:
    """Write the model card of a folder, whose tokenizer has been written.

    Args:
        config: that of the model; ``fairseq`` has its provenance.
        graph: None if the folder is for ``transformers``.
        vectors: how a vector is made of the features, if it is.
    """
    files = {"fast": TOKENIZER_JSON, "slow": "tokenizer_config.json"}
    tokenizer = next((kind for kind, name in files.items() if (folder / name).is_file()), None)
    head = config.architectures[0].removeprefix("Linformer").removeprefix("Model")
    task, shape = _KINDS[head]
    labels = [config.id2label[i] for i in range(config.num_labels)] if task == "text-classification" else []
    pooling = graph and graph["pooling"]
    is_score = config.problem_type == "regression" or len(labels) == 1
    logits = "logits[:, 0].tolist()" if is_score else f"[{labels!r}[i] for i in logits.argmax(-1)]"
    name = "Linformer" if config.projected_dim else "RoBERTa"
    card = ModelCard.from_template(
        _describe(name, config, task, graph, vectors),
        template_str=_TEMPLATE,
        name=name,
        config=config,
        graph=graph,
        file=graph and (ONNX_INT8_GRAPH if graph["int8"] else ONNX_GRAPH),
        vectors=vectors,
        output="features" if pooling else "logits",
        shape="(sentences, width)" if pooling in ("mean", "cls") else shape,
        tokenizer=tokenizer,
        result="features.shape" if pooling else logits if labels else "logits.argmax(-1).tolist()",
        head=head,
        task=task,
        labels=labels,
        imported=_details(config, "imported"),
        distilled=_details(config, "distilled"),
        finetuned=_details(config, "finetuned"),
        version=__version__,
        escape=_escape,
        name_data=_name_data,
    )
    (folder / "README.md").write_text(str(card), encoding="utf-8")


def _details(config: LinformerPreTrainedConfig, name: str) -> Any:
    """What is known about the model under this name, see ``provenance.py``."""
    return (config.fairseq or {}).get(name) or {}


def _describe(
    name: str, config: LinformerPreTrainedConfig, task: str, graph: Graph | None, vectors: str | None
) -> ModelCardData:
    """The metadata that the hub reads."""
    imported, finetuned = _details(config, "imported"), _details(config, "finetuned")
    results = [
        EvalResult(
            task,
            metric_type=_METRICS.get(metric, metric),
            metric_value=score["value"],
            **_locate_data(finetuned["task"], split),
        )
        for split, result in finetuned.get("splits", {}).items()
        for metric, score in result["scores"].items()
        if task == "text-classification"  # features are not what was scored
    ]
    data = sorted({result.dataset_type for result in results if "/" in result.dataset_type})
    relation = "quantized" if graph and graph["int8"] else "finetune"
    return ModelCardData(
        library_name="onnx" if graph else "sentence-transformers" if vectors else "transformers",
        pipeline_tag="sentence-similarity" if vectors and not graph else task,
        tags=[name.lower(), "fairseq"],
        language=imported.get("language") or ("en" if data else None),  # as all of TASKS are
        license=_details(config, "license") or imported.get("license"),
        base_model=imported.get("hub"),
        base_model_relation=relation if imported.get("hub") else None,
        datasets=data or None,
        model_name=name if results else None,
        eval_results=results or None,
    )


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


def _escape(value: Any) -> str:
    """Escape text of a checkpoint for a cell of Markdown, in which it is neither HTML nor a link."""
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("<", "&lt;").replace("[", "\\[")
    return text.replace("`", "\\`").replace("|", "\\|")
