"""Entries of the ledger for finetuned models, and the table that is made of them.

    python -m fairseq_linformer.reproduce.finetuned [results]      writes results/finetuning.md

``fairseq-linformer finetune --ledger results`` writes the entries.
"""

import argparse
import re
import sys
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..files import write_lines
from ..finetuning.grid import runs_of, settings
from ..task_data.table import TASKS, Task
from . import ledger
from .ledger import Entry, Measurement
from .paper import TABLE_2

PREFIX, REPORT = "finetuning-", "finetuning.md"
_OF_THE_HUB = {
    "roberta-base": "512, RoBERTa-base", "bert-base-uncased": "512, BERT-base", "bert-base-cased": "512, BERT-base",
    "distilbert-base-uncased": "512, Distilled BERT", "distilbert-base-cased": "512, Distilled BERT",
}  # fmt: skip
_SHARED = {"headwise": "", "key-value": ", shared kv", "layerwise": ", shared kv, layer"}


def paper_row(model: Dict[str, Any]) -> Optional[str]:
    """The row of table 2 that a model stands for, whatever the number and width of its layers; None if there is none."""
    if model["from_scratch"] or model["projection"] not in ("", "linear"):
        return None
    if not model["projected_dim"]:
        if model["pretraining"]:  # fairseq's RoBERTa
            return "512, RoBERTa-base" if model["max_positions"] == 512 else None
        return _OF_THE_HUB.get(model["checkpoint"].lower().split("/")[-1])
    row = f"{model['max_positions']}, Linformer, {model['projected_dim']}{_SHARED.get(model['sharing'], '?')}"
    return row if row in TABLE_2 else None


def paper_of(task: str, row: Optional[str]) -> Dict[str, Any]:
    """What an entry says of the paper: the cell of a task in a row of table 2, None if there is no such row."""
    value = None if row is None else TABLE_2[row].get(task)
    return {"value": value, "where": f"Table 2, {row or 'no such row'}; base size, pretrained on BookCorpus and Wikipedia for 250,000 updates"}


def entry_of(task: Task, results: Sequence[Dict[str, Any]], name: str, command: str) -> Entry:
    """What a run or a grid measured, as an entry of the ledger that is not written yet.

    Args:
        results: as ``finetuning.run.read_result`` gives them, of one model on one task.
        name: of the entry, behind ``finetuning-``.
        command: that makes it again.

    Raises:
        ValueError: the runs do not say their commit.
    """
    model, recipes = results[0]["model"], [result["recipe"] for result in results]
    best = settings(task, results)[0]
    chosen = runs_of(best, results)
    if not all(result["commit"] for result in results):
        raise ValueError("a run was trained outside a git repository and does not say its commit; an entry of the ledger must")
    return Entry(
        identifier=PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        claim=f"{task.name}: {_described(model)}, finetuned; scores of the {'last epoch on the test set' if task.valid_is_test else 'best epoch on the development set, on which it is chosen too'}",
        paper=paper_of(task.name, paper_row(model)),
        measured=_measured(chosen),
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


def _measured(chosen: List[Dict[str, Any]]) -> Dict[str, Measurement]:
    found: Dict[str, Measurement] = {}
    for split in chosen[0]["splits"]:
        for name in chosen[0]["splits"][split]["scores"]:
            factor, unit = (100, "%") if name == "accuracy" else (1, "1")
            values = [factor * result["splits"][split]["scores"][name]["value"] for result in chosen]
            several = len(values) > 1
            found[f"{split} {name}"] = Measurement(median(values), unit, [min(values), max(values)] if several else None, len(values))
            if not several:
                low, high = (factor * x for x in chosen[0]["splits"][split]["scores"][name]["interval"])
                found |= {f"{split} {name}, {end} end of the 95 % interval": Measurement(x, unit, None, 1) for end, x in (("lower", low), ("upper", high))}
        if (majority := chosen[0]["splits"][split]["majority"]) is not None:
            found[f"{split} majority"] = Measurement(100 * majority, "%", None, 1)
        found[f"{split} rows"] = Measurement(chosen[0]["splits"][split]["rows"], "rows", None, 1)
    return found


def _shape(model: Dict[str, Any]) -> str:
    shape = model["pretraining"]["cfg"]["model"]
    kind = f"Linformer, n = {model['max_positions']}, k = {model['projected_dim']}, {model['sharing']}" if model["projected_dim"] else f"RoBERTa, n = {model['max_positions']}"
    return f"{kind}, {shape.get('encoder_layers')} layers of {shape.get('encoder_embed_dim')}"


def _described(model: Dict[str, Any]) -> str:
    if not model["pretraining"]:
        return f"{model['checkpoint']} (transformers)"
    updates = model["pretraining"].get("num_updates")
    told = f"pretrained for {updates:,} updates at last" if updates else "pretrained, it does not say how long"
    return f"{_shape(model)}, " + ("without pretraining" if model["from_scratch"] else told)


def table(entries: Sequence[Entry]) -> List[str]:
    """All of them in Markdown, the paper's number beside each."""
    lines = [
        "# Finetuned models", "",
        "Made of the ledger's entries by `python -m fairseq_linformer.reproduce.finetuned`. Scores are those of the development set, of the best epoch, which is "
        "chosen on it too, as in the paper; of IMDB those of the test set, of the last epoch. An interval of one run is that of 95 % over the rows; of several seeds it is the lowest to the highest, "
        "and the value their median. **The paper's models are of base size and pretrained on 16 GB of text; unless it says so, these are not.**", "",
        "| task | model | score | interval | most frequent class | rate, batch, epochs | paper |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for entry in sorted(entries, key=lambda e: (list(TASKS).index(e.configuration["task"]), e.configuration["model"]["from_scratch"], e.identifier)):
        lines.append(f"| {' | '.join(_row(entry))} |")
    lines += _differences(entries)
    lines += ["", "## Where they are from", ""]
    lines += [f"- `{entry.identifier}`: {ledger.footer(entry)} Commit {entry.commit}." for entry in entries]
    return lines


def _differences(entries: Sequence[Entry]) -> List[str]:
    """What pretraining was worth: pairs of entries of one shape, task and recipe."""
    scratch = {_pair(entry): entry for entry in entries if entry.configuration["model"]["from_scratch"]}
    rows = []
    for entry in entries:
        without = scratch.get(_pair(entry))
        if without is None or without is entry or TASKS[entry.configuration["task"]].metrics[0] != "accuracy":
            continue
        ours, theirs = (e.measured["valid accuracy"] for e in (entry, without))
        if min(ours.repetitions, theirs.repetitions) > 1:
            low, high = ours.spread[0] - theirs.spread[1], ours.spread[1] - theirs.spread[0]
            how = f"of {ours.repetitions} and {theirs.repetitions} seeds, lowest less highest to highest less lowest"
        else:  # two shares of the same number of rows
            error = 1.96 * sqrt(sum(m.value * (100 - m.value) / e.measured["valid rows"].value for e, m in ((entry, ours), (without, theirs))))
            low, high, how = ours.value - theirs.value - error, ours.value - theirs.value + error, "95 %, of the rows"
        said = "more" if low > 0 else "less" if high < 0 else "not told apart"
        model = _shape(entry.configuration["model"])
        rows.append(f"| {entry.configuration['task']} | {model} | {ours.value:.2f} | {theirs.value:.2f} | {ours.value - theirs.value:+.2f} | {low:+.2f} to {high:+.2f}, {how} | {said} |")
    head = ["", "## What pretraining was worth", "", "The same model, recipe and data, in points of accuracy.", "",
            "| task | model | pretrained | from scratch | difference | interval | |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    return [*head, *rows] if rows else []


def _pair(entry: Entry) -> Tuple[Any, ...]:
    """What two entries have in common that differ in pretraining alone."""
    c = entry.configuration
    shape = c["model"]["pretraining"].get("cfg", {}).get("model", {})
    recipes = sorted((r["lr"], r["batch_size"], r["epochs"], r["seed"]) for r in c["recipes"])
    return (c["task"], *(c["model"][name] for name in ("max_positions", "projected_dim", "sharing")),
            *(shape.get(name) for name in ("encoder_layers", "encoder_embed_dim")), str(recipes))  # fmt: skip


def _row(entry: Entry) -> Tuple[str, ...]:
    task, model, chosen = TASKS[entry.configuration["task"]], entry.configuration["model"], entry.configuration["chosen"]
    name = task.metrics[0]
    score = entry.measured[f"valid {name}"]
    ends = score.spread or [entry.measured[f"valid {name}, {end} end of the 95 % interval"].value for end in ("lower", "upper")]
    seeds = f" ({score.repetitions} seeds)" if score.repetitions > 1 else ""
    majority = entry.measured.get("valid majority")
    paper = f"{entry.paper['value']} ({entry.paper['where'].split(';')[0].removeprefix('Table 2, ')})" if entry.paper["value"] is not None and not model["from_scratch"] else "none"
    digits = 2 if name == "accuracy" else 4  # an accuracy stands in the ledger in per cent
    others = "".join(f", {other} {entry.measured[f'valid {other}'].value:.{2 if other == 'accuracy' else 4}f}" for other in task.metrics[1:])
    return (task.name, _described(model), f"{score.value:.{digits}f} {'%' if name == 'accuracy' else name}{others}{seeds}", f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}",
            f"{majority.value:.2f} %" if majority else "", f"{chosen['lr']:g}, {chosen['batch_size']}, {entry.configuration['recipes'][0]['epochs']}", paper)  # fmt: skip


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    folder = parser.parse_args(arguments).results
    try:
        entries = [ledger.read(path) for path in sorted(folder.glob(f"{PREFIX}*.json"))]
        if not entries:
            raise ValueError(f"there is no {PREFIX}*.json in {folder}; `fairseq-linformer finetune --ledger {folder}` writes them")
        write_lines(folder / REPORT, table(entries))
    except (OSError, ValueError) as error:
        sys.exit(f"finetuned: {error}")
    print(folder / REPORT)


if __name__ == "__main__":
    main()
