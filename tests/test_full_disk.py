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
@pytest.mark.parametrize(
    "words, needed",
    [
        ("export {checkpoint} {out}", 36),
        ("prepare pretraining {out} --tokenizer {tokenizer} --source {text} --workers 1 --valid-share 0.3", 40),
    ],
    ids=["export", "prepare"],
)
def test_commands(words, needed, seed, masked_lm, disk, tmp_path):
    """A full disk is no input that a command rejects: the error is that of the library that writes."""
    paths = {"checkpoint": masked_lm / "checkpoint_last.pt", "out": disk / "out"}
    paths["text"] = write_text(tmp_path / "text.txt", build_documents(100))
    paths["tokenizer"] = write_gpt2(tmp_path / "gpt2")
    fill_at_random(disk, seed, needed)
    with pytest.raises((SystemExit, Exception), match=NO_SPACE):
        main(words.format(**paths).split())
    assert contents(disk) == {}
