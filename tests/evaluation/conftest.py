"""A finetuned checkpoint, rows for it, and the command, shared by the tests."""

import shutil

import pytest

from .labeled_rows import ROWS


@pytest.fixture(scope="module")
def finetuned(classifier, pieces, tmp_path_factory):
    """A checkpoint with dictionary, tokenizer and labels next to it, as ``finetune`` writes them."""
    folder = tmp_path_factory.mktemp("finetuned")
    for path in classifier.glob("*"):
        if path.name != "checkpoint_best.pt" and path.is_file():
            shutil.copy(path, folder)
    shutil.copytree(pieces / "label", folder / "label")
    return folder / "checkpoint_last.pt"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("".join(["sentence\tlabel\n", *(f"{text}\t{label}\n" for text, label in ROWS)]))
    return path


@pytest.fixture
def evaluate(command):
    """The command on the CPU."""
    return lambda *words: command("evaluate", *words, "--device", "cpu")
