"""Which columns of a user's file have the texts and the label."""

import sys
from collections.abc import Collection, Mapping
from typing import Any

from .tables import check_columns

Columns = tuple[tuple[str, ...], str]
"""One or two text columns and their label column."""
_USUAL: dict[tuple[str, ...], tuple[str, ...]] = {
    ("#1 String", "#2 String"): ("Quality",),
    ("premise", "hypothesis"): ("label",),
    ("question", "sentence"): ("label",),
    ("question1", "question2"): ("is_duplicate",),
    ("sentence1", "sentence2"): ("gold_label", "label", "score"),
    ("sentence",): ("label",),
    ("text",): ("label",),
}
"""Text columns to look for, pairs first, and their label columns."""


def read_columns(source: Mapping[str, Any]) -> Columns | None:
    """The columns in the ``description`` of a user's own files; None for other data."""
    return (tuple(source["text_columns"]), source["label_column"]) if "label_column" in source else None


def choose_columns(
    name,
    known: Collection[str],
    texts: tuple[str, ...],
    label: str | None,
    inputs: int | None = None,
    trained: Columns | None = None,
) -> tuple[tuple[str, ...], str | None]:
    """The text columns of a file, and its label column or None, which are printed.

    Args:
        name: of the file, for messages.
        known: its columns.
        texts: those that are set; empty to recognize them by the names of the tasks, or ``text``.
        label: the one that is set; None to recognize it.
        inputs: texts per row, if known.
        trained: columns of a model's own training data, which are recognized first.
    """
    if not texts and trained and {*trained[0]} <= {*known}:
        texts = trained[0]
    texts = texts or _recognize_texts(name, known, inputs)
    usual = (*(trained[1:] if trained and trained[0] == texts else ()), *_USUAL.get(texts, ()))
    label = label or next((column for column in (*usual, "label") if column in known), None)
    columns = (*texts, label) if label else texts
    if len(texts) not in ((1, 2) if inputs is None else (inputs,)) or len({*columns}) < len(columns):
        expected = f"{inputs or 'one or two'} different columns, and --label-column another"
        raise ValueError(f"--text-column must be {expected}, got {', '.join(columns)}")
    check_columns(name, known, columns)
    labels = f"labels in {label}" if label else "no labels"
    print(f"{name}: text in {' and '.join(texts)}, {labels}", file=sys.stderr)
    return texts, label


def _recognize_texts(name, known: Collection[str], inputs: int | None) -> tuple[str, ...]:
    """The text columns with the names of a task, or ``text``; ValueError if there are none, or if several could be."""
    matches = [usual for usual in _USUAL if {*usual} <= {*known} and inputs in (None, len(usual))]
    longest = [usual for usual in matches if len(usual) == len(matches[0])]
    if not longest:
        raise ValueError(f"{name} needs --text-column; choose from {', '.join(known)}")
    if len(longest) > 1:
        choices = " and in ".join(" with ".join(pair) for pair in longest)
        raise ValueError(f"{name} has text in {choices}; choose with --text-column")
    return longest[0]
