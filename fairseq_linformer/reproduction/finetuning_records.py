"""Records of finetuned models. ``fairseq-linformer finetune --ledger`` writes them too."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ..finetuning.grid import runs_of, settings
from ..task_data.table import Task
from .paper import TABLE_2
from .records import Measurement, Record

PREFIX = "finetuning-"
_HUB_ROWS = {
    "roberta-base": "512, RoBERTa-base", "bert-base-uncased": "512, BERT-base", "bert-base-cased": "512, BERT-base",
    "distilbert-base-uncased": "512, Distilled BERT", "distilbert-base-cased": "512, Distilled BERT",
}  # fmt: skip
_SHARED = {"headwise": "", "key-value": ", shared kv", "layerwise": ", shared kv, layer"}


def record_of(task: Task, results: Sequence[Mapping[str, Any]], name: str, command: str) -> Record:
    """What a run or a grid of runs measured, of one model on one task.

    Args:
        results: of ``finetuning.run.read_result``.
        name: of the record, after ``finetuning-``.

    Raises:
        ValueError: a run does not say its commit.
    """
    model, recipes = results[0]["model"], [result["recipe"] for result in results]
    best = settings(task, results)[0]
    chosen = runs_of(best, results)
    if not all(result["commit"] for result in results):
        raise ValueError("a run was trained outside a git repository, so that its commit is unknown; a record needs one")
    scored = "last epoch on the test set" if task.valid_is_test else "best epoch on the development set, on which it is chosen too"
    return Record(
        identifier=PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        experiment="table-2",
        made_by="finetune",
        claim=f"{task.name}: {_described(model)}, finetuned; scores of the {scored}",
        paper=paper_cell(task.name, paper_row(model)),
        measurements=list(_measurements(task.name, model, chosen)),
        commit="; ".join(dict.fromkeys(result["commit"] for result in results)),
        hardware=chosen[0]["hardware"],
        versions=chosen[0]["versions"],
        date=max(result["date"] for result in results),
        scale="cpu" if recipes[0]["device"] == "cpu" else "gpu",
        data=f"{task.name}: {results[0]['data']}",
        command=command,
        configuration={"task": task.name, "model": model, "recipes": recipes, "chosen": {"lr": best.lr, "batch_size": best.batch_size}},
        seconds=sum(result["seconds"] for result in results),
    )


def paper_row(model: Mapping[str, Any]) -> str | None:
    """The row of Table 2 that a model stands for, whatever its depth and width; None if there is none."""
    if model["from_scratch"] or model["projection"] not in ("", "linear"):
        return None
    if not model["projected_dim"]:
        if model["pretraining"]:  # fairseq's RoBERTa
            return "512, RoBERTa-base" if model["max_positions"] == 512 else None
        return _HUB_ROWS.get(model["checkpoint"].lower().split("/")[-1])
    row = f"{model['max_positions']}, Linformer, {model['projected_dim']}{_SHARED.get(model['sharing'], '?')}"
    return row if row in TABLE_2 else None


def paper_cell(task: str, row: str | None) -> dict[str, Any]:
    """The ``paper`` field of a record: ``value``, the printed accuracy in percent (None without such a row), and ``where``."""
    value = None if row is None else TABLE_2[row].get(task)
    where = f"Table 2, {row or 'no such row'}; base size, pretrained on BookCorpus and Wikipedia for 250,000 updates"
    return {"value": value, "where": where}


def _measurements(task: str, model: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """Scores of each split: over several seeds the median between the extremes; of one run, with its 95 % interval over rows."""
    places: dict[str, Any] = {"task": task, "n": int(model["max_positions"])}
    if model["projected_dim"]:
        places |= {"k": int(model["projected_dim"]), "sharing": model["sharing"]}
    for split in chosen[0]["splits"]:
        at = {**places, "split": split}
        for name in chosen[0]["splits"][split]["scores"]:
            factor, unit = (100, "%") if name == "accuracy" else (1, "1")
            values = [factor * result["splits"][split]["scores"][name]["value"] for result in chosen]
            if len(values) > 1:
                spread = {"interval": (min(values), max(values)), "repetitions": len(values)}
            else:
                low, high = (factor * end for end in chosen[0]["splits"][split]["scores"][name]["interval"])
                spread = {"interval": (min(low, values[0]), max(high, values[0])), "interval_kind": "confidence"}
            yield Measurement(metric=name, value=median(values), unit=unit, **spread, **at)
        if (majority := chosen[0]["splits"][split]["majority"]) is not None:
            yield Measurement(metric="majority", value=100 * majority, unit="%", **at)
        yield Measurement(metric="rows", value=chosen[0]["splits"][split]["rows"], unit="rows", **at)


def _described(model: Mapping[str, Any]) -> str:
    if not model["pretraining"]:
        return f"{model['checkpoint']} (transformers)"
    updates, shape = model["pretraining"].get("num_updates"), model["pretraining"]["cfg"]["model"]
    kind = f"RoBERTa, n = {model['max_positions']}"
    if model["projected_dim"]:
        kind = f"Linformer, n = {model['max_positions']}, k = {model['projected_dim']}, {model['sharing']}"
    pretrained = f"pretrained for {updates:,} updates at last" if updates else "pretrained, it does not say how long"
    if model["from_scratch"]:
        pretrained = "without pretraining"
    return f"{kind}, {shape.get('encoder_layers')} layers of {shape.get('encoder_embed_dim')}, {pretrained}"
