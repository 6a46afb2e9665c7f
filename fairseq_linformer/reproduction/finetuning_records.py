"""Records of finetuned models. ``fairseq-linformer finetune --results`` writes them too."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ..finetuning.grid import rank_settings, select_results
from ..launching.run_folder import merge_values
from ..task_data.tasks import Task
from .paper import TABLE_2
from .records import Measurement, Paper, Record

PREFIX = "finetuning-"
MAX_NAME_LENGTH = 200
_HUB_ROWS = {
    "roberta-base": "512, RoBERTa-base",
    "bert-base-uncased": "512, BERT-base",
    "bert-base-cased": "512, BERT-base",
    "distilbert-base-uncased": "512, Distilled BERT",
    "distilbert-base-cased": "512, Distilled BERT",
}
_SHARED = {"headwise": "", "key-value": ", shared kv", "layerwise": ", shared kv, layer"}


def record_of(task: Task, results: Sequence[dict[str, Any]], name: str, command: str) -> Record:
    """The record of a run, or of a grid of runs, of one model on one task.

    Args:
        results: of ``finetuning.single_run.read_result``.
        name: name of the run folder.

    Raises:
        ValueError: a run has no commit, or as ``record_identifier``.
    """
    model, recipes = results[0]["model"], [result["recipe"] for result in results]
    best = rank_settings(task, results)[0]
    chosen = select_results(best, results)
    if not all(result["commit"] for result in results):
        raise ValueError("a record needs the commit of each run, but a run was trained outside a git repository")
    scored = (
        "last epoch on the test set"
        if task.valid_is_test
        else "best epoch on the development set, on which it is chosen too"
    )
    return Record(
        identifier=record_identifier(name),
        experiment="table-2",
        made_by="finetune",
        claim=f"{task.name}: {_describe_model(model)}, finetuned; scores of the {scored}",
        paper=Paper(**paper_cell(task.name, paper_row(model))),
        measurements=list(_measurements(task.name, model, chosen)),
        commit="; ".join(dict.fromkeys(result["commit"] for result in results)),
        hardware=merge_values([result["hardware"] for result in results]),
        versions=merge_values([result["versions"] for result in results]),
        date=max(result["date"] for result in results),
        scale="cpu" if recipes[0]["device"] == "cpu" else "gpu",
        data=f"{task.name}: {results[0]['data']}",
        command=command,
        configuration={
            "task": task.name,
            "model": model,
            "recipes": recipes,
            "chosen": {"lr": best.lr, "batch_size": best.batch_size},
        },
        seconds=sum(result["seconds"] for result in results),
    )


def record_identifier(name: str) -> str:
    """The identifier of the record of a run, from the last part of its name.

    Raises:
        ValueError: the identifier would be empty, or too long for a file name.
    """
    part = re.sub(r"[^a-z0-9]+", "-", name.rstrip("/").split("/")[-1].lower()).strip("-")
    if not 1 <= len(part) <= MAX_NAME_LENGTH:
        raise ValueError(
            f"--name must have 1 to {MAX_NAME_LENGTH} letters (a to z) and digits to name the record, got {name!r}"
        )
    return PREFIX + part


def paper_row(model: Mapping[str, Any]) -> str | None:
    """The row of Table 2 with a model's n, k and sharing, at any depth and width; None if there is none."""
    if model["from_scratch"] or model["projection"] not in ("", "linear"):
        return None
    if not model["projected_dim"]:
        if model["pretraining"]:  # fairseq's RoBERTa
            return "512, RoBERTa-base" if model["max_positions"] == 512 else None
        return _HUB_ROWS.get(model["checkpoint"].lower().split("/")[-1])
    row = f"{model['max_positions']}, Linformer, {model['projected_dim']}{_SHARED.get(model['sharing'], '?')}"
    return row if row in TABLE_2 else None


def paper_cell(task: str, row: str | None) -> dict[str, Any]:
    """The ``paper`` field of a record: ``value``, the printed accuracy in percent or None, and ``where``."""
    value = None if row is None else TABLE_2[row].get(task)
    where = f"Table 2, {row or 'no such row'}; base size, pretrained on BookCorpus and Wikipedia for 250,000 updates"
    return {"value": value, "where": where}


def _measurements(task: str, model: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """Scores per split: median, lowest and highest over seeds; for a single run, the 95 % interval over rows."""
    fields: dict[str, Any] = {"task": task, "n": int(model["max_positions"])}
    if model["projected_dim"]:
        fields |= {"k": int(model["projected_dim"]), "sharing": model["sharing"]}
    for split in chosen[0]["splits"]:
        at = {**fields, "split": split}
        for name in chosen[0]["splits"][split]["scores"]:
            factor, unit = (100, "%") if name == "accuracy" else (1, "1")
            values = [factor * result["splits"][split]["scores"][name]["value"] for result in chosen]
            spread: dict[str, Any]
            if len(values) > 1:
                spread = {"interval": (min(values), max(values)), "repetitions": len(values)}
            else:
                low, high = (factor * end for end in chosen[0]["splits"][split]["scores"][name]["interval"])
                spread = {"interval": (min(low, values[0]), max(high, values[0])), "interval_kind": "confidence"}
            yield Measurement(metric=name, value=median(values), unit=unit, **spread, **at)
        if (majority := chosen[0]["splits"][split]["majority"]) is not None:
            yield Measurement(metric="majority", value=100 * majority, unit="%", **at)
        yield Measurement(metric="rows", value=chosen[0]["splits"][split]["rows"], unit="rows", **at)


def _describe_model(model: Mapping[str, Any]) -> str:
    if not model["pretraining"]:
        return f"{model['checkpoint']} (transformers)"
    updates, shape = model["pretraining"].get("num_updates"), model["pretraining"]["cfg"]["model"]
    kind = f"RoBERTa, n = {model['max_positions']}"
    if model["projected_dim"]:
        kind = f"Linformer, n = {model['max_positions']}, k = {model['projected_dim']}, {model['sharing']}"
    pretrained = f"pretrained, the last run for {updates:,} updates" if updates else "pretrained, updates unknown"
    if model["from_scratch"]:
        pretrained = "without pretraining"
    return f"{kind}, {shape.get('encoder_layers')} layers of {shape.get('encoder_embed_dim')}, {pretrained}"
