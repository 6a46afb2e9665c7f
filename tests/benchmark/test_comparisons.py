"""What is measured: a measurement per length, with the models and sizes that apply."""

import pytest

from fairseq_linformer.benchmark.comparisons import list_measurements
from fairseq_linformer.benchmark.measure import Setup
from fairseq_linformer.benchmark.rows import Case

SETUP = Setup(layers=1, embed_dim=64, vocabulary=100)
MODELS = ("ours", "authors", "roberta")


def test_models_of_a_length_take_turns():
    """Local windows are of this project's models, and each k is below n."""
    found = list_measurements("training", SETUP, MODELS, [8, 16], [4, 8, 32], 64, windows=[0, 2], positions=32)
    assert [each.func.__name__ for each in found] == ["training", "training"]
    sizes = [("ours", 4, 0), ("ours", 4, 2), ("ours", 8, 0), ("ours", 8, 2), ("authors", 4, 0), ("authors", 8, 0)]
    cases = [Case(model, 16, k, window, 32) for model, k, window in (*sizes, ("roberta", None, 0))]
    assert found[1].keywords["cases"] == cases
    (shorter,) = list_measurements("inference", SETUP, ["ours"], [8], [4, 8], 64)
    assert shorter.keywords["cases"] == [Case("ours", 8, 4)]


@pytest.mark.parametrize("n, batch", [(16, 4), (128, 1)])
def test_a_process_has_at_least_one_sentence_per_batch(n, batch):
    (found,) = list_measurements("processes", SETUP, MODELS, [n], [4], 64, data="task")
    assert found.func.__name__ == "processes" and found.keywords["batch"] == batch and found.keywords["data"] == "task"


def test_sizes_that_do_not_fit_are_rejected_before_anything_is_measured():
    with pytest.raises(ValueError, match="local_window"):
        list_measurements("inference", SETUP, MODELS, [8, 16], [4], 64, windows=[-1])
