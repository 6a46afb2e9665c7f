"""Tasks with contradictory fields."""

import pytest

from fairseq_linformer.data.tasks import Hub, Task, Tsv


@pytest.mark.parametrize(
    "change, message",
    [
        ({"classes": {}}, "either classes or score_range"),
        ({"score_range": (0, 1)}, "either classes or score_range"),
        ({"tsv": None}, "at least one source"),
        ({"tsv": Tsv("X", ["text", "class"], ["text"])}, "column label in train.tsv"),
        ({"hub": Hub("x", ["a", "b"])}, "one or two texts"),
        ({"hub": Hub("x", ["a"], splits={"train": "train", "test": "test"})}, "the same splits"),
    ],
)
def test_contradictory_fields_are_rejected(change, message):
    entry = {
        "name": "x",
        "license": "none",
        "classes": {"0": "no", "1": "yes"},
        "tsv": Tsv("X", ["text", "label"], ["text"]),
    }
    Task(**entry)
    with pytest.raises(ValueError, match=message):
        Task(**{**entry, **change})
