"""Entries of the ledger for finetuned models, and the table that is made of them.

    python -m fairseq_linformer.reproduce.finetuned [results]      writes results/finetuning.md

``fairseq-linformer finetune --ledger results`` writes the entries.
"""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..files import write_lines
from ..finetuning.grid import score_of, settings
from ..task_data.table import TASKS, Task
from . import ledger
from .ledger import Entry, Measurement
from .paper import TABLE_2

PREFIX, REPORT = "finetuning-", "finetuning.md"
_HERE = Path(__file__).parent
_SHARED = {"headwise": "", "key-value": ", shared kv", "layerwise": ", shared kv, layer"}


def paper_row(model: Dict[str, Any]) -> Optional[str]:
    """The row of table 2 that a model stands for, whatever its size; None if there is none."""
    name = model["checkpoint"].lower()
    if not model["projected_dim"]:
        known = ("distilbert", "512, Distilled BERT"), ("roberta", "512, RoBERTa-base"), ("bert-base", "512, BERT-base")
        is_fairseq = bool(model["pretraining"])
        return next((row for part, row in known if part in name or (is_fairseq and part == "roberta")), None)
    row = f"{model['max_positions']}, Linformer, {model['projected_dim']}{_SHARED.get(model['sharing'], '?')}"
    return row if row in TABLE_2 else None


def check_ledger(folder) -> None:
    """Before the work: can an entry be written after it?

    Raises:
        ValueError: there is no such folder, or the code is not in a repository whose commit could be named.
    """
    if not os.access(folder, os.W_OK) or not Path(folder).is_dir():
        raise ValueError(f"--ledger is {folder}; a folder that can be written is wanted")
    try:
        ledger.current_commit(_HERE)
    except (OSError, CalledProcessError):
        raise ValueError("--ledger is given, and this package is not in a git repository; an entry names the commit that it was measured with") from None


def write_entry(task: Task, results: Sequence[Dict[str, Any]], folder, name: str) -> Path:
    """What a run or a grid measured, as an entry of the ledger.

    Args:
        results: as ``finetuning.run.read_result`` gives them, of one model on one task.
        name: of the entry, behind ``finetuning-``.
    """
    model, recipes = results[0]["model"], [result["recipe"] for result in results]
    row = paper_row(model)
    value = None if row is None else TABLE_2[row].get(task.name)
    best = settings(task, results)[0]
    chosen = [result for result in results if (result["recipe"]["lr"], result["recipe"]["batch_size"]) == (best.lr, best.batch_size)]
    entry = Entry(
        identifier=PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        claim=f"{task.name}: {_described(model)}, finetuned; scores of the best epoch on the development set, on which it is chosen too",
        paper={"value": value, "where": f"Table 2, {row or 'no such row'}; base size, pretrained on BookCorpus and Wikipedia for 250,000 updates"},
        measured=_measured(chosen),
        commit=ledger.current_commit(_HERE),
        configuration={"task": task.name, "model": model, "recipes": recipes, "chosen": {"lr": best.lr, "batch_size": best.batch_size}},
        seconds=sum(result["seconds"] for result in results),
        **ledger.circumstances(_data(results[0]), _command(task, model, recipes), "cpu" if recipes[0]["device"] == "cpu" else "gpu"),
    )
    return ledger.write(entry, folder)


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


def _described(model: Dict[str, Any]) -> str:
    if not model["pretraining"]:
        return f"{model['checkpoint']} (transformers)"
    shape = model["pretraining"]["cfg"]["model"]
    size = f"{shape.get('encoder_layers')} layers of {shape.get('encoder_embed_dim')}"
    kind = f"Linformer, n = {model['max_positions']}, k = {model['projected_dim']}, {model['sharing']}" if model["projected_dim"] else f"RoBERTa, n = {model['max_positions']}"
    updates = model["pretraining"].get("num_updates")
    return f"{kind}, {size}, " + ("without pretraining" if model["from_scratch"] else f"pretrained for {updates:,} updates at last")


def _data(result: Dict[str, Any]) -> str:
    return f"{result['task']}: {result['data']}"


def _command(task: Task, model: Dict[str, Any], recipes: List[Dict[str, Any]]) -> str:
    words = ["fairseq-linformer", "finetune", task.name, model["checkpoint"], *recipes[0]["overrides"]]
    for option in ("lr", "batch_size", "seed"):
        words += [f"--{option.replace('_', '-')}", ",".join(dict.fromkeys(f"{recipe[option]:g}" for recipe in recipes))]
    words += ["--epochs", str(recipes[0]["epochs"])] + ["--from-scratch"] * model["from_scratch"] + ["--grid"] * (len(recipes) > 1)
    return shlex.join(words)


def table(entries: Sequence[Entry]) -> List[str]:
    """All of them in Markdown, the paper's number beside each."""
    lines = [
        "# Finetuned models", "",
        "Made of the ledger's entries by `python -m fairseq_linformer.reproduce.finetuned`. Scores are those of the development set (of IMDB the test set), of the "
        "best epoch, which is chosen on it too, as in the paper. An interval of one run is that of 95 % over the rows; of several seeds it is the lowest to the highest, "
        "and the value their median. **The paper's models are of base size and pretrained on 16 GB of text; unless it says so, these are not.**", "",
        "| task | model | score | interval | most frequent class | rate, batch, epochs | paper |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for entry in sorted(entries, key=lambda e: (list(TASKS).index(e.configuration["task"]), e.configuration["model"]["from_scratch"], e.identifier)):
        lines.append(f"| {' | '.join(_row(entry))} |")
    lines += ["", "## Where they are from", ""]
    lines += [f"- `{entry.identifier}`: {ledger.footer(entry)} Commit {entry.commit}." for entry in entries]
    return lines


def _row(entry: Entry) -> Tuple[str, ...]:
    task, model, chosen = TASKS[entry.configuration["task"]], entry.configuration["model"], entry.configuration["chosen"]
    name = score_of(task)
    score = entry.measured[f"valid {name}"]
    ends = score.spread or [entry.measured[f"valid {name}, {end} end of the 95 % interval"].value for end in ("lower", "upper")]
    seeds = f" ({score.repetitions} seeds)" if score.repetitions > 1 else ""
    majority = entry.measured.get("valid majority")
    paper = f"{entry.paper['value']} ({entry.paper['where'].split(';')[0].removeprefix('Table 2, ')})" if entry.paper["value"] is not None else "none"
    digits = 2 if name == "accuracy" else 4
    f1 = f", F1 {entry.measured['valid f1'].value:.4f}" if task.name in ("qqp", "mrpc") else ""
    return (task.name, _described(model), f"{score.value:.{digits}f} {'%' if name == 'accuracy' else name}{f1}{seeds}", f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}",
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
