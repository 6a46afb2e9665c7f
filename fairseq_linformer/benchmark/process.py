"""A whole ``fairseq-train`` process: words a second as it logs them, and the most memory that it had.

Each model is trained for some updates, in turns: by masked language modelling on random tokens of RoBERTa's vocabulary,
or on a task as ``prepare`` writes it.
"""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Dict, Iterator, List, Tuple

import numpy as np
import torch

from ..corpus.binarised import Writer
from ..errors import first_line
from ..fairseq_log import every
from .cells import PLACE, Setting, slug
from .memory import NO_MEMORY
from .whole import WITH_FAIRSEQ, authors_example, check_authors, check_models

PLUGIN = Path(__file__).parents[1]
FAIRSEQ_TRAIN = Path(__file__).with_name("fairseq_train.py")
SAID_HERE = ("--amp", "--arch", "-a", "--batch-size", "--max-sentences", "--bf16", "--cpu", "--distributed-world-size", "--encoder-attention-heads",
             "--encoder-embed-dim", "--encoder-ffn-embed-dim", "--encoder-layers", "--fp16", "--log-format", "--log-interval", "--max-positions",
             "--max-tokens", "--max-update", "--memory-efficient-bf16", "--memory-efficient-fp16", "--projected-dim", "--task", "--tokens-per-sample",
             "--tpu", "--update-freq")  # fmt: skip
"""Options of fairseq that a cell's own fields are told as, and its log is read by: another value would make the cell's untrue."""


@dataclass(frozen=True)
class Process(Setting):
    """Processes of one shape.

    Raises:
        ValueError: a model that cannot be trained so, or that is not here.
    """

    n: int
    batch: int
    models: Tuple[str, ...] = WITH_FAIRSEQ
    k: int = 256
    updates: int = 5
    rounds: int = field(default=1, kw_only=True)
    warm_up_updates: int = field(default=1, kw_only=True)
    """Of the updates; they do not count. --compile wants some ten, or its compiling is measured."""
    options: Tuple[str, ...] = ()
    """More options, for this plugin's model only, such as --compile."""
    kind: ClassVar[str] = "process"

    def __post_init__(self):
        super().__post_init__()
        if not self.models:
            raise ValueError(f"models is empty; it must be some of {', '.join(WITH_FAIRSEQ)}")
        check_models(self.models, WITH_FAIRSEQ, "is not trained by fairseq; {} are")
        self.shape(self.n, self.k)  # refuses k above n
        check_authors(self.models, self.n, self.k)
        if not 1 <= self.warm_up_updates < self.updates:
            raise ValueError(f"warm_up_updates is {self.warm_up_updates}; it must be at least 1 and less than updates, which is {self.updates}")
        if (self.device, self.dtype) == ("cpu", "fp16"):
            raise ValueError("dtype is fp16; fairseq trains in it on a GPU only, on cpu it must be fp32 or bf16")
        if self.options and "ours" not in self.models:
            raise ValueError(f"fairseq options are {shlex.join(self.options)}; they are for this plugin's model, "
                             f"and ours is not among {', '.join(self.models)}")  # fmt: skip
        for option in (word.split("=")[0] for word in self.options):
            if option in SAID_HERE:
                raise ValueError(f"fairseq options have {option}, which the benchmark says itself; the other options of fairseq-train can be given")

    @property
    def name(self) -> str:
        """KIND-DEVICE-DTYPE-LAYERS-n[-OPTIONS]."""
        return f"{self.kind}-{self.device}-{self.dtype}-l{self.layers}-n{self.n}{slug(self.options)}"

    @property
    def clock(self) -> str:
        """fairseq's own."""
        return "wall"

    def operations(self) -> float:
        """As of the steps alone."""
        from .training import Training

        step = Training(self.n, self.batch, self.models, positions=self.n, k=self.k, **self.setting())
        return self.rounds * self.updates * sum(step.model_operations(name) for name in self.models)

    def measure(self) -> Dict[str, Any]:
        """``words`` a second of each round, over its updates but those that warm up, and ``bytes`` of the host's memory that
        the process that trains had; ``failed`` those that the GPU has no memory for."""
        words: Dict[str, List[float]] = {name: [] for name in self.models}
        memory: Dict[str, List[int]] = {name: [] for name in self.models}
        failed: Dict[str, str] = {}
        for name, folder in self.turns():
            if name in failed:
                continue
            try:
                log, most = run(self.command(name, folder))
            except torch.OutOfMemoryError:
                failed[name] = NO_MEMORY
                del words[name], memory[name]
                continue
            words[name].append(words_a_second(log, self.warm_up_updates))
            memory[name].append(most)
        return {"words": words, "bytes": memory, "failed": failed}

    def turns(self) -> Iterator[Tuple[str, str]]:
        """The models in turns, round by round, and the folder of their data."""
        with TemporaryDirectory() as folder:
            self.write_data(Path(folder))
            for i in range(self.rounds):
                for name in list(self.models)[:: -1 if i % 2 else 1]:
                    yield name, folder

    def write_data(self, folder: Path) -> None:
        """A folder for ``--task masked_lm``."""
        entries = self.vocabulary - 5  # beside <s>, <pad>, </s>, <unk> and <mask>
        (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(entries)))
        rng = np.random.default_rng(0)
        for split in ("train", "valid"):
            writer = Writer(folder / split, np.uint16 if self.vocabulary < 65500 else np.uint32)
            lines = self.batch * (self.updates + 1)
            writer.add(rng.integers(4, 4 + entries, lines * self.n), np.full(lines, self.n))
            writer.finish()

    def command(self, name: str, folder: str) -> List[str]:
        """What is run for a model."""
        return [sys.executable, "-P", str(FAIRSEQ_TRAIN), *self.arguments(name, folder)]

    def arguments(self, name: str, folder: str) -> List[str]:
        """Of ``fairseq-train``. The options come last, and so win over what every model has."""
        arch = {"roberta": "roberta_base"}.get(name, "linformer_roberta_base")
        plugin = {"roberta": [], "authors": ["--user-dir", str(authors_example() / "linformer_src")], "ours": ["--user-dir", str(PLUGIN)]}[name]
        linear = {
            "roberta": [], "ours": ["--projected-dim", str(self.k), "--sharing", "layerwise"],
            "authors": ["--compressed", str(self.n // self.k), "--shared-kv-compressed", "1", "--shared-layer-kv-compressed", "1"],
        }[name]  # fmt: skip
        precision = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}[self.dtype]
        device = ["--cpu"] if self.device == "cpu" else ["--distributed-world-size", "1"]  # or it takes every GPU, with a batch each
        return [
            *plugin, *self.task(folder), "--arch", arch, *linear,
            "--encoder-layers", str(self.layers), "--encoder-embed-dim", str(self.embed_dim), "--encoder-ffn-embed-dim", str(4 * self.embed_dim),
            "--encoder-attention-heads", str(self.heads), "--batch-size", str(self.batch), "--max-positions", str(self.n), "--optimizer", "adam",
            "--lr", "1e-5", "--max-update", str(self.updates), "--log-format", "json", "--log-interval", "1", "--disable-validation", "--no-save",
            "--seed", "1", *precision, *device, *(self.options if name == "ours" else ()),
        ]  # fmt: skip

    def task(self, folder: str) -> List[str]:
        """What is trained, on what ``write_data`` wrote."""
        return [folder, "--task", "masked_lm", "--criterion", "masked_lm", "--tokens-per-sample", str(self.n)]


@dataclass(frozen=True)
class Finetuning(Process):
    """Processes that finetune on real text: batches of sentences as long as they are, in models of n positions.

    Raises:
        ValueError: as ``Process``.
    """

    n: int = 512
    batch: int = 32
    rounds: int = field(default=3, kw_only=True)
    classes: int = field(default=2, kw_only=True)
    data: str = field(kw_only=True)
    """What it is, in words, with its sums."""
    folder: str = field(kw_only=True, compare=False, metadata={PLACE: True})
    """Where it lies, as ``prepare`` writes it."""
    kind: ClassVar[str] = "finetuning"

    def operations(self) -> float:
        """As of sentences of 32 tokens, which is more than those of SST-2."""
        from .training import Training

        step = Training(min(32, self.n), self.batch, self.models, positions=self.n, k=self.k, classify=True, **self.setting())
        return self.rounds * self.updates * sum(step.model_operations(name) for name in self.models)

    def write_data(self, folder: Path) -> None:
        """It is there."""

    def task(self, folder: str) -> List[str]:
        """The task of fairseq's ``sentence_prediction`` layout."""
        return [self.folder, "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", str(self.classes), "--init-token", "0",
                "--separator-token", "2", "--shorten-method", "truncate", "--required-batch-size-multiple", "1"]  # fmt: skip


def run(command: List[str]) -> Tuple[str, int]:
    """What a command says, and the most memory that its process had, in bytes. The kernel keeps that mark (VmHWM); what
    ``wait`` tells would have this process in it, which was copied for a moment to start the other. The command has as
    many threads as PyTorch has here.

    Raises:
        torch.OutOfMemoryError: it says that a GPU has no memory left; fairseq goes on without the batch that was too large.
        ValueError: it fails; with its last line.
    """
    most = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        with open(path, "w") as log:
            threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **threads})
            try:
                while process.poll() is None:
                    most = max(most, _high_water_mark(process.pid))
                    time.sleep(0.05)
            finally:  # who is ended in the middle, by a signal, leaves none behind that trains on
                process.kill()
                process.wait()
        said = path.read_text(errors="replace")
    if "CUDA out of memory" in said:
        raise torch.OutOfMemoryError(f"{command[0]} has no room on the GPU")
    if process.returncode != 0:
        raise ValueError(f"{command[0]} ended with {process.returncode}: {first_line((said.strip().splitlines() or [''])[-1])}")
    return said, most


def _high_water_mark(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # ended meanwhile
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) * 1024 if found else 0


def words_a_second(log: str, warm_up: int = 1) -> float:
    """Words over seconds of all updates in fairseq's JSON log lines but the first, which have warming up in them.

    Args:
        warm_up: how many do not count.

    Raises:
        ValueError: there are no more than those.
    """
    updates = list(every(log.splitlines(), "train_inner"))
    counted = updates[warm_up:]
    if not counted:
        raise ValueError(f"the log has {len(updates)} updates; more than {warm_up} are needed")
    return sum(update["wpb"] for update in counted) / sum(update["wpb"] / update["wps"] for update in counted)
