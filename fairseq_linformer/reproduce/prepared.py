"""What ``prepare`` made of real text and tasks: from its manifests to a ledger entry and a table.

    python -m fairseq_linformer.reproduce.prepared CORPUS TASK... --seconds S --results results --data "wiki, books, ..."

CORPUS and TASK are folders that ``prepare`` has written. scripts/prepare.sh is all of it in one command.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List

from . import ledger
from .ledger import Entry, Measurement, current_commit

COMMAND = "scripts/prepare.sh DATA OUT"


def of_corpus(manifest: Dict[str, Any]) -> Dict[str, Measurement]:
    """Counts of each source and each split.

    Raises:
        ValueError: two sources have the same name.
    """
    found: Dict[str, Measurement] = {}
    for source in manifest["sources"]:
        name = "/".join(Path(source["location"]).parts[-2:])
        documents = {what: source[what] for what in ("documents_read", "documents", "duplicate_documents")}
        add(found, _counts(name, documents, "documents"))
        for unit in ("words", "tokens"):
            add(found, _counts(name, {unit: source[unit]}, unit))
        add(found, _counts(name, {"unfit_documents": sum(source["unfit"].values())}, "documents"))
    for split, counts in manifest["splits"].items():
        for unit in ("documents", "tokens"):
            add(found, _counts(split, {unit: counts[unit]}, unit))
    return found


def of_task(manifest: Dict[str, Any]) -> Dict[str, Measurement]:
    """Counts of each split."""
    found: Dict[str, Measurement] = {}
    for split, counts in manifest["splits"].items():
        skipped = sum(reason["rows"] for reason in counts["skipped"].values())
        name = f"{manifest['task']} {split}"
        add(found, _counts(name, {"rows": counts["written"], "skipped_rows": skipped, "cut_rows": counts["cut"]}, "rows"))
        add(found, _counts(name, {"tokens": counts["tokens"]}, "tokens"))
    return found


def add(found: Dict[str, Measurement], more: Dict[str, Measurement]) -> None:
    """Put ``more`` behind what was found.

    Raises:
        ValueError: a name is there already.
    """
    twice = [name for name in more if name in found]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice; two sources must differ in the last two parts of their paths, and a task is given once")
    found.update(more)


def _counts(name: str, counts: Dict[str, int], unit: str) -> Dict[str, Measurement]:
    return {f"{name}: {what.replace('_', ' ')}": Measurement(count, unit, None, 1) for what, count in counts.items()}


def table(entry: Entry, speed: Entry) -> str:
    """Both in Markdown."""
    lines = ["# Text and tasks, prepared", "", f"{entry.claim}.", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {m.value:,} |" for name, m in entry.measured.items()]
    lines += ["", ledger.footer(entry), f"Commit {entry.commit}.", "", f"{speed.claim}.", "", "| | median | lowest to highest |", "|---|---|---|"]
    for name, m in speed.measured.items():
        spread = "" if m.spread is None else f"{m.spread[0]:g} to {m.spread[1]:g}"
        lines.append(f"| {name.replace('_', ' ')} | {m.value:g} {m.unit} | {spread} |")
    return "\n".join([*lines, "", ledger.footer(speed), f"Commit {speed.commit}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("tasks", type=Path, nargs="*")
    parser.add_argument("--seconds", type=float, required=True, help="that it all took")
    parser.add_argument("--data", required=True, help="what the text is, in words")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    try:
        manifests: List[Dict[str, Any]] = [json.loads((folder / "manifest.json").read_text()) for folder in (args.corpus, *args.tasks)]
        measured = of_corpus(manifests[0])
        for manifest in manifests[1:]:
            add(measured, of_task(manifest))
        entry = Entry(
            identifier="prepared-data",
            claim="Wikipedia and novels for pretraining, and the four tasks of the paper, in GPT-2's tokens: what prepare read and wrote",
            paper={"value": None, "where": "section 5.1: BookCorpus and English Wikipedia, 3,300 M words; SST-2, QNLI, QQP, IMDB"},
            measured=measured,
            commit=current_commit(),
            configuration={"tokenizer": manifests[0]["tokenizer"]["files"], "max_positions": [m["max_positions"] for m in manifests[1:]]},
            seconds=args.seconds,
            **ledger.circumstances(args.data, COMMAND),
        )
        print(ledger.write(entry, args.results))
        speed = ledger.read(args.results / "preparing-speed.json")
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"prepared: {error}")
    (args.results / "prepared.md").write_text(table(entry, speed))


if __name__ == "__main__":
    main()
