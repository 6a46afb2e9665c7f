"""Whole ``fairseq-train`` processes: words a second as they log them, the most memory, and the parts of an update.

Each model is trained for some updates, in turns: by masked language modelling on random tokens of RoBERTa's vocabulary,
or on a task as ``prepare`` writes it.
"""

import json
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
from ..fairseq_log import every
from .cells import PATH, Setting
from .entries import slug
from .fairseq_train import PARTS, REST
from .memory import NO_MEMORY
from .models import WITH_FAIRSEQ, authors_example, check_models
from .timing import in_turns
from .training import Training

PLUGIN = Path(__file__).parents[1]
FAIRSEQ_TRAIN = Path(__file__).with_name("fairseq_train.py")
SAMPLE_EVERY = 0.01
"""Seconds between two readings of a process's peak memory."""
RESERVED = ("--amp", "--arch", "-a", "--batch-size", "--max-sentences", "--bf16", "--cpu", "--distributed-world-size",
            "--encoder-attention-heads",
            "--encoder-embed-dim", "--encoder-ffn-embed-dim", "--encoder-layers", "--fp16", "--log-format",
            "--log-interval", "--max-positions",
            "--max-tokens", "--max-update", "--memory-efficient-bf16", "--memory-efficient-fp16", "--projected-dim",
            "--task", "--tokens-per-sample",
            "--tpu", "--update-freq")  # fmt: skip
"""Options of fairseq that the fields of a cell determine, or that its log depends on."""


@dataclass(frozen=True)
class Process(Setting):
    """Processes of one shape.

    Raises:
        ValueError: a model that cannot be trained so, or is not installed; an option that the cell determines.
    """

    n: int
    batch: int
    models: Tuple[str, ...] = WITH_FAIRSEQ
    k: int = 256
    updates: int = 5
    rounds: int = field(default=1, kw_only=True)
    warm_up_updates: int = field(default=1, kw_only=True)
    """The first of the updates, which do not count. --compile needs some ten, or compiling is measured."""
    options: Tuple[str, ...] = ()
    """More options, for this plugin's model only, such as --compile."""
    kind: ClassVar[str] = "process"

    def __post_init__(self):
        super().__post_init__()
        self.shape(self.n, self.k)  # refuses k above n
        check_models(self.models, WITH_FAIRSEQ, self.n, self.k)
        if not 1 <= self.warm_up_updates < self.updates:
            raise ValueError(f"warm_up_updates is {self.warm_up_updates}; it must be 1 to {self.updates - 1}")
        if (self.device, self.dtype) == ("cpu", "fp16"):
            raise ValueError("dtype is fp16; fairseq trains in it on a GPU only, on cpu it must be fp32 or bf16")
        if self.options and "ours" not in self.models:
            raise ValueError(f"fairseq options are {shlex.join(self.options)}; they are for this plugin's model, "
                             f"and ours is not among {', '.join(self.models)}")  # fmt: skip
        for option in (word.split("=")[0] for word in self.options):
            if option in RESERVED:
                raise ValueError(f"fairseq options have {option}, which the benchmark sets itself; it must be left out")

    @property
    def _shape_name(self) -> str:
        return f"n{self.n}{slug(self.options)}"

    @property
    def clock(self) -> str:
        """fairseq's own."""
        return "wall"

    def operations(self) -> float:
        """Of the steps alone."""
        return self._operations_of(Training(self.n, self.batch, self.models, positions=self.n, k=self.k,
                                            **self.setting()))  # fmt: skip

    def _operations_of(self, step: Training) -> float:
        return self.rounds * self.updates * sum(step.model_operations(name) for name in self.models)

    def measure(self) -> Dict[str, Any]:
        """``words`` a second of each round, over its updates after those that warm up, and ``bytes`` of the host's
        memory that the training process had; ``failed``: models for which the GPU has too little memory."""
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
            words[name].append(words_per_second(log, self.warm_up_updates))
            memory[name].append(most)
        return {"words": words, "bytes": memory, "failed": failed}

    def turns(self) -> Iterator[Tuple[str, str]]:
        """The models in turns, round by round, and the folder of their data."""
        with TemporaryDirectory() as folder:
            self.write_data(Path(folder))
            for _, name in in_turns(self.models, self.rounds):
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

    def command(self, name: str, folder: str, *before: str) -> List[str]:
        """The command that trains a model; ``before`` comes before the options of fairseq-train."""
        return [sys.executable, "-P", str(FAIRSEQ_TRAIN), *before, *self.arguments(name, folder)]

    def arguments(self, name: str, folder: str) -> List[str]:
        """Of ``fairseq-train``. ``options`` come last, and so override what every model has."""
        compressed = ["--compressed", str(self.n // self.k), "--shared-kv-compressed", "1",
                      "--shared-layer-kv-compressed", "1"]  # fmt: skip
        of_model = {
            "roberta": ["--arch", "roberta_base"],
            "authors": ["--arch", "linformer_roberta_base", "--user-dir", str(authors_example() / "linformer_src"),
                        *compressed],
            "ours": ["--arch", "linformer_roberta_base", "--user-dir", str(PLUGIN), "--projected-dim", str(self.k),
                     "--sharing", "layerwise"],
        }[name]  # fmt: skip
        precision = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}[self.dtype]
        # or it takes every GPU, with a batch each
        device = ["--cpu"] if self.device == "cpu" else ["--distributed-world-size", "1"]
        return [
            *self.task(folder), *of_model,
            "--encoder-layers", str(self.layers), "--encoder-embed-dim", str(self.embed_dim),
            "--encoder-ffn-embed-dim", str(4 * self.embed_dim),
            "--encoder-attention-heads", str(self.heads), "--batch-size", str(self.batch), "--max-positions",
            str(self.n), "--optimizer", "adam",
            "--lr", "1e-5", "--max-update", str(self.updates), "--log-format", "json", "--log-interval", "1",
            "--disable-validation", "--no-save",
            "--seed", "1", *precision, *device, *(self.options if name == "ours" else ()),
        ]  # fmt: skip

    def task(self, folder: str) -> List[str]:
        """The task, on the data of ``write_data``."""
        return [folder, "--task", "masked_lm", "--criterion", "masked_lm", "--tokens-per-sample", str(self.n)]


@dataclass(frozen=True)
class Finetuning(Process):
    """Processes that finetune on real text: batches of sentences of their own length, in models of n positions.

    Raises:
        ValueError: as ``Process``.
    """

    n: int = 512
    batch: int = 32
    rounds: int = field(default=3, kw_only=True)
    classes: int = field(default=2, kw_only=True)
    data: str = field(kw_only=True)
    """A description, with checksums."""
    folder: str = field(kw_only=True, compare=False, metadata={PATH: True})
    """Of the data, as ``prepare`` writes it."""
    kind: ClassVar[str] = "finetuning"

    def operations(self) -> float:
        """Of sentences of 32 tokens, which is more than those of SST-2."""
        short = min(32, self.n)
        return self._operations_of(Training(short, self.batch, self.models, positions=self.n, k=self.k, classify=True,
                                            **self.setting()))  # fmt: skip

    def write_data(self, folder: Path) -> None:
        """The data exists."""

    def task(self, folder: str) -> List[str]:
        """The task of fairseq's ``sentence_prediction`` layout."""
        return [self.folder, "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes",
                str(self.classes), "--init-token", "0",
                "--separator-token", "2", "--shorten-method", "truncate", "--required-batch-size-multiple",
                "1"]  # fmt: skip


@dataclass(frozen=True)
class Shares(Process):
    """Processes of one shape with a stopwatch inside: the seconds of each of ``PARTS`` of an update, and of the
    ``REST``.

    Raises:
        ValueError: as ``Process``.
    """

    kind: ClassVar[str] = "shares"

    def measure(self) -> Dict[str, Any]:
        """``seconds`` of each part, of the rest and of the whole, in each update that counts."""
        parts = (*PARTS, REST, "whole")
        seconds: Dict[str, Dict[str, List[float]]] = {name: {part: [] for part in parts} for name in self.models}
        for name, folder in self.turns():
            for update in self._updates(name, folder)[self.warm_up_updates :]:
                update[REST] = update["whole"] - sum(update[part] for part in PARTS)
                for part, taken in update.items():
                    seconds[name][part].append(taken)
        return {"seconds": seconds}

    def _updates(self, name: str, folder: str) -> List[Dict[str, float]]:
        with TemporaryDirectory() as results:
            out = Path(results, "updates.json")
            run(self.command(name, folder, "--parts", str(out)))
            updates = json.loads(out.read_text())
        if len(updates) <= self.warm_up_updates:
            raise ValueError(f"{name}: {len(updates)} updates were timed; more than {self.warm_up_updates} are needed")
        return updates


def run(command: List[str]) -> Tuple[str, int]:
    """The output of a command, and the most memory that its process had, in bytes. The command has as many threads as
    PyTorch has here.

    Raises:
        torch.OutOfMemoryError: it reports that a GPU has no memory left; fairseq continues without the batch that was
        too large.
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
                    most = max(most, _peak_bytes(process.pid))
                    time.sleep(SAMPLE_EVERY)
            finally:  # a signal that ends this process leaves no other behind that trains on
                process.kill()
                process.wait()
        output = path.read_text(errors="replace")
    if "CUDA out of memory" in output:
        raise torch.OutOfMemoryError(f"{command[0]} has no room on the GPU")
    if process.returncode != 0:
        last = (output.strip().splitlines() or [""])[-1]
        raise ValueError(f"{command[0]} ended with {process.returncode}: {last}")
    return output, most


def _peak_bytes(pid: int) -> int:
    """The kernel's high-water mark. psutil has none on Linux, and that of ``wait4`` includes this process, from before exec."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has just ended
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) * 1024 if found else 0


def words_per_second(log: str, warm_up: int = 1) -> float:
    """Words over seconds of all updates in fairseq's JSON log lines after the first ``warm_up``.

    Raises:
        ValueError: there are no more than those.
    """
    updates = list(every(log.splitlines(), "train_inner"))
    counted = updates[warm_up:]
    if not counted:
        raise ValueError(f"the log has {len(updates)} updates; more than {warm_up} are needed")
    return sum(update["wpb"] for update in counted) / sum(update["wpb"] / update["wps"] for update in counted)
