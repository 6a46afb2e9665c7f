"""Entries of the table that contradict themselves."""

import pytest

from fairseq_linformer.task_data.table import Hub, Task, Tsv


@pytest.mark.parametrize(
    "change, said",
    [
        ({"classes": {}}, "either classes or a score"),
        ({"score": (0, 1)}, "either classes or a score"),
        ({"tsv": None}, "needs a source"),
        ({"tsv": Tsv("X", ["text", "class"], ["text"])}, "column label in train.tsv"),
        ({"hub": Hub("x", ["a", "b"])}, "one text or two"),
        ({"hub": Hub("x", ["a"], splits={"train": "train", "test": "test"})}, "the same splits from each source"),
    ],
)
def test_an_entry_that_contradicts_itself(change, said):
    entry = {"name": "x", "licence": "none", "classes": {"0": "no", "1": "yes"}, "tsv": Tsv("X", ["text", "label"], ["text"])}
    Task(**entry)
    with pytest.raises(ValueError, match=said):
        Task(**{**entry, **change})
