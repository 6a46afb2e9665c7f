"""From manifests of what was prepared to measurements, and the table of those in results/."""

from pathlib import Path

import pytest

from fairseq_linformer.reproduce.ledger import Measurement, read
from fairseq_linformer.reproduce.prepared import add, of_corpus, of_task, table
from fairseq_linformer.reproduce.preparing import timed

RESULTS = Path(__file__).parents[2] / "results"


def source(location, **counts):
    found = dict.fromkeys(("documents_read", "documents", "duplicate_documents", "words", "tokens"), 0)
    return {"location": location, "unfit": {}, **found, **counts}


def test_of_corpus():
    sources = [source("/data/wiki/train.txt", documents_read=9, documents=5, duplicate_documents=1, words=40, tokens=70, unfit={"NUL byte": 2, "not JSON": 1}),
               source("hub:books")]  # fmt: skip
    found = of_corpus({"sources": sources, "splits": {"valid": {"documents": 1, "tokens": 9, "words": 3}}})
    said = {name: (m.value, m.unit) for name, m in found.items()}
    assert {name: what for name, what in said.items() if not name.startswith("hub:")} == {
        "wiki/train.txt: documents read": (9, "documents"),
        "wiki/train.txt: documents": (5, "documents"),
        "wiki/train.txt: duplicate documents": (1, "documents"),
        "wiki/train.txt: words": (40, "words"),
        "wiki/train.txt: tokens": (70, "tokens"),
        "wiki/train.txt: unfit documents": (3, "documents"),
        "valid: documents": (1, "documents"),
        "valid: tokens": (9, "tokens"),
    }
    assert len(found) == 14
    with pytest.raises(ValueError, match="'wiki/train.txt: documents read' is there twice"):
        of_corpus({"sources": [source("a/wiki/train.txt"), source("b/wiki/train.txt")], "splits": {}})


def test_of_task():
    counts = {"written": 7, "cut": 2, "tokens": 80, "skipped": {"empty text": {"rows": 1}, "not UTF-8": {"rows": 3}}}
    found = of_task({"task": "rte", "splits": {"train": counts}})
    assert {name: (m.value, m.unit) for name, m in found.items()} == {
        "rte train: rows": (7, "rows"), "rte train: skipped rows": (4, "rows"), "rte train: cut rows": (2, "rows"), "rte train: tokens": (80, "tokens"),
    }  # fmt: skip
    with pytest.raises(ValueError, match="is there twice"):
        add(found, {"rte train: rows": Measurement(1, "rows", None, 1)})


def test_the_table_is_that_of_the_entries():
    entry = read(RESULTS / "prepared-data.json")
    assert (RESULTS / "prepared.md").read_text() == table(entry, read(RESULTS / "preparing-speed.json"))
    assert {m.unit for m in entry.measured.values()} == {"documents", "words", "tokens", "rows"}


def test_a_command_that_dies_without_a_word():
    with pytest.raises(ValueError, match="^sh -c exit 3 ended with 3: it said nothing$"):
        timed([["sh", "-c", "exit 3"]])
    with pytest.raises(ValueError, match="ended with 1: last$"):
        timed([["sh", "-c", "echo first >&2; echo last >&2; exit 1"]])
