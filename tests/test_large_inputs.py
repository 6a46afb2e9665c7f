"""Memory of commands on large inputs: `evaluate` on 1,000,000 rows and `prepare pretraining` on 2 GB of text.

LARGE_SHARE=0.01 runs both at 1 % of these sizes. The test samples the memory of each command and its child processes,
which must stay flat after the first tenth of the output. At full size it needs 8 GB of disk space in pytest's
``--basetemp``.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fairseq_linformer.benchmark.timing import process_bytes
from fairseq_linformer.data.sentencepiece_model import train_model

from .evaluation.labeled_rows import NAMES

ROOT = Path(__file__).parents[1]
ROWS, TEXT_BYTES = 1_000_000, 2_000_000_000
POINTS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Shares of the output at which memory is reported."""
MAX_GROWTH = 1.25
"""Largest ratio of the memory at a later point to that at the first. `evaluate` keeps 24 bytes per row of two classes,
and scores them at the end."""
SECONDS = 0.2
PIECES = 2000

pytestmark = pytest.mark.nightly


@pytest.fixture
def share() -> float:
    return float(os.environ.get("LARGE_SHARE", "1"))


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


class Command:
    """Runs ``fairseq-linformer`` and samples its private memory while each phase writes its output.

    Args:
        phases: a function per phase that returns the bytes of its output so far.

    Attributes:
        samples: (bytes of output, bytes of memory) by phase.
    """

    def __init__(self, phases: dict[str, Callable[[], int]], *words):
        self.samples: dict[str, list[tuple[int, int]]] = {name: [] for name in phases}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "fairseq_linformer.cli", *map(str, words)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        while process.poll() is None:
            memory = sum(process_bytes("RssAnon", pid) or 0 for pid in family(process.pid))
            for name, output in phases.items():
                if memory and (size := output()):
                    self.samples[name].append((size, memory))
            time.sleep(SECONDS)
        assert process.returncode == 0
        self.output = process.communicate()[0]

    def check_flat(self) -> None:
        """Memory stays flat after the first tenth of the output of each phase; it is printed at some points."""
        for phase, samples in self.samples.items():
            final = max(size for size, _ in samples)
            found = [next(memory for size, memory in samples if size >= share * final) for share in POINTS]
            print(phase, {f"{share:.0%}": f"{memory / 2**20:.0f} MiB" for share, memory in zip(POINTS, found)})
            assert max(found) <= MAX_GROWTH * found[0], phase


def sizes(folder: Path, pattern: str) -> int:
    """Bytes of the files in a folder and its subfolders, finished or hidden."""
    total = 0
    for path in (*folder.rglob(pattern), *folder.rglob(f".{pattern}")):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # it has been renamed
            continue
    return total


def test_evaluate(share, classifier, pieces, tmp_path):
    rows, random_words = int(ROWS * share), random.Random(1)
    words = (*"the cat sat on mat a dog ran to and".split(), "A Cat")
    with open(tmp_path / "rows.tsv", "w") as file:
        file.write("sentence\tlabel\n")
        for i in range(rows):
            file.write(f"{' '.join(random_words.choices(words, k=2 + i % 7))}\t{NAMES[i % 2]}\n")
    out = tmp_path / "predictions.tsv"
    options = ("--labels", pieces / "label/dict.txt", "--predictions", out, "--device", "cpu")
    command = Command(
        {"predicting": lambda: sizes(tmp_path, f"{out.name}*")},
        *("evaluate", classifier / "checkpoint_last.pt", tmp_path / "rows.tsv", *options),
    )
    assert f"{rows:,} labeled rows" in command.output
    with open(out) as file:
        assert sum(1 for _ in file) == rows + 1
    command.check_flat()


def documents(num_bytes: int) -> Iterator[str]:
    """Different documents of 5 to 15 paragraphs, with words of a Zipf distribution."""
    generator = random.Random(2)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(generator.choices(letters, k=2 + i % 9)) for i in range(20_000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    paragraphs = [" ".join(generator.choices(words, weights, k=generator.randint(20, 120))) for _ in range(5000)]
    written = 0
    while written < num_bytes:
        chosen = generator.choices(paragraphs, k=generator.randint(5, 15))
        text = "\n".join(f"{generator.choice(words)} {generator.choice(words)} {part}" for part in chosen)
        yield text
        written += len(text) + 2


def test_prepare_pretraining(share, tmp_path):
    source = tmp_path / "text.txt"
    with open(source, "w") as file:
        for text in documents(int(TEXT_BYTES * share)):
            file.write(f"{text}\n\n")
    out, cache = tmp_path / "out", Path(os.environ["HF_DATASETS_CACHE"])
    sample = [line for text in documents(1_000_000) for line in text.split("\n")]
    (tmp_path / "spm.model").write_bytes(train_model(iter(sample), PIECES))
    command = Command(
        {
            "reading": lambda: sizes(cache, "generator-train*"),
            "tokenizing": lambda: sizes(cache, "tmp*") + sizes(cache, "cache-*"),
            "writing": lambda: sizes(tmp_path, "train.bin*"),
        },
        *("prepare", "pretraining", out, "--source", source, "--workers=1"),
        *("--tokenizer", tmp_path / "spm.model"),
    )
    assert (out / "manifest.json").exists()
    command.check_flat()
    shutil.rmtree(out)
    source.unlink()
