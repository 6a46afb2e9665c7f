"""Writers on a disk that is really full: each says so, keeps what was there, leaves no rest."""

import random

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction.result import read, write

from .data.corpora import build_documents, write_text
from .fairseq_preprocessing import write_gpt2
from .fault_seeds import SEEDS
from .reproduction.test_result import result
from .small_disk import contents, fill, mount_small_disk

NO_SPACE = "No space left on device"


def fill_at_random(disk, seed, needed):
    """Leave less than a command needs, in KiB."""
    (disk / "reserve").write_bytes(bytes(1024 * random.Random(seed).randrange(needed)))
    fill(disk)
    (disk / "reserve").unlink()


@pytest.fixture
def disk(tmp_path):
    with mount_small_disk(tmp_path / "disk", 512) as folder:
        yield folder


def fails(words) -> None:
    """A full disk is no input that a command rejects: the error is that of the library that writes."""
    with pytest.raises((SystemExit, Exception), match=NO_SPACE):
        main([*map(str, words)])


def test_results(disk):
    path = disk / "figure_9/cpu.json"
    write(result("a"), path)
    before, filler = contents(disk), fill(disk)
    with pytest.raises(OSError, match=NO_SPACE):
        write(result("b"), path)
    assert contents(disk) == before
    filler.unlink()
    write(result("b"), path)
    assert read(path) == [result("a"), result("b")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_export(seed, masked_lm, disk):
    fill_at_random(disk, seed, 36)
    words = ["export", masked_lm / "checkpoint_last.pt", disk / "out"]
    fails(words)
    assert contents(disk) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_corpus(seed, disk, tmp_path):
    text = write_text(tmp_path / "text.txt", build_documents(100))
    words = ["--tokenizer", write_gpt2(tmp_path / "gpt2"), "--source", text, "--workers", 1, "--valid-share", 0.3]
    fill_at_random(disk, seed, 40)
    fails(["prepare", "pretraining", disk / "out", *words])
    assert contents(disk) == {}
