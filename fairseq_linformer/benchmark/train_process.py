"""Whole ``fairseq-train`` processes: logged words per second, peak host memory, and the parts of an update.

The models alternate and train for a few updates each: by masked language modeling on random tokens of RoBERTa's
vocabulary, or on a task that ``prepare`` wrote.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch

from ..data.binarized import BinarizedWriter, token_dtype
from ..fairseq_log import read_split
from ..machine import process_bytes
from ..resources import PLUGIN
from .arguments import format_options
from .cells import LOCAL_PATH, BenchmarkCell, options_slug
from .fairseq_train import PARTS, REST
from .memory import NO_MEMORY
from .models import FAIRSEQ_MODELS, authors_example_folder, check_models
from .timing import alternate

FAIRSEQ_TRAIN = Path(__file__).with_name("fairseq_train.py")
SAMPLE_INTERVAL = 0.01
"""Seconds between readings of a process's peak memory."""
RESERVED = """
    --amp --arch -a --batch-size --max-sentences --bf16 --cpu --distributed-world-size --encoder-attention-heads
    --encoder-embed-dim --encoder-ffn-embed-dim --encoder-layers --fp16 --log-format --log-interval --max-positions
    --max-tokens --max-update --memory-efficient-bf16 --memory-efficient-fp16 --projected-dim --task
    --tokens-per-sample --tpu --update-freq
""".split()
"""fairseq options that the fields of a cell set, or that affect parsing of the log."""


@dataclass(frozen=True)
class ProcessCell(BenchmarkCell):
    """Training processes of one shape.

    Raises:
        ValueError: a model is not allowed or not installed, or an option is in ``RESERVED`` or cannot be measured.
    """

    n: int
    batch: int
    models: tuple[str, ...] = FAIRSEQ_MODELS
    k: int = 256
    updates: int = 5
    rounds: int = field(default=1, kw_only=True)
    warm_up_updates: int = field(default=1, kw_only=True)
    """Number of updates that are not recorded; --compile needs about ten, or compilation is measured."""
    options: tuple[str, ...] = ()
    """Extra fairseq options for this plugin's model only, such as --compile."""
    kind: ClassVar[str] = "process"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.build_config(self.n, self.k)  # rejects k above n
        check_models(self.models, FAIRSEQ_MODELS, self.n, self.k)
        if not 1 <= self.warm_up_updates < self.updates:
            raise ValueError(
                f"warm_up_updates must be at least 1 and less than updates ({self.updates}), got {self.warm_up_updates}"
            )
        if self.device == "cpu" and self.dtype != "fp32":
            raise ValueError(f"dtype must be fp32 on a CPU, where fairseq does not train in {self.dtype}")
        if self.options and "ours" not in self.models:
            raise ValueError(
                f"fairseq options {shlex.join(self.options)} need the model ours, got {', '.join(self.models)}"
            )
        for option in (word.split("=")[0] for word in self.options):
            if option in RESERVED:
                raise ValueError(f"fairseq options must not include {option}, which the benchmark sets")

    @property
    def _shape_name(self) -> str:
        return f"n{self.n}{options_slug(self.options)}"

    @property
    def clock(self) -> str:
        return "wall"  # fairseq's own

    def measure(self) -> dict[str, Any]:
        """
        Returns:
            ``words`` per second of each round, over the updates after warm-up; ``bytes``, the peak host memory of each
            process; and ``failed``, models that do not fit into the GPU's memory.
        """
        words: dict[str, list[float]] = {name: [] for name in self.models}
        memory: dict[str, list[int]] = {name: [] for name in self.models}
        failed: dict[str, str] = {}
        for name, folder in self.turns():
            if name in failed:
                continue
            try:
                log, peak = run_command(self.command(name, folder), name)
            except torch.OutOfMemoryError:
                failed[name] = NO_MEMORY
                del words[name], memory[name]
                continue
            words[name].append(words_per_second(log, self.warm_up_updates))
            memory[name].append(peak)
        return {"words": words, "bytes": memory, "failed": failed}

    def turns(self) -> Iterator[tuple[str, str]]:
        """(model, folder of the data), alternating between models."""
        with TemporaryDirectory() as folder:
            data = self.prepare_data(Path(folder))
            for _, name in alternate(self.models, self.rounds):
                yield name, data

    def prepare_data(self, folder: Path) -> str:
        """Write random tokens for ``--task masked_lm``; return the folder to train on."""
        num_words = self.vocabulary - 5  # without <s>, <pad>, </s>, <unk> and <mask>
        (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(num_words)))
        rng = np.random.default_rng(0)
        for split in ("train", "valid"):
            writer = BinarizedWriter(folder / split, token_dtype(self.vocabulary))
            num_lines = self.batch * (self.updates + 1)
            writer.add(rng.integers(4, 4 + num_words, num_lines * self.n), np.full(num_lines, self.n))
            writer.finish()
        return str(folder)

    def command(self, name: str, folder: str, *before: str) -> list[str]:
        """The command that trains a model; ``before`` comes before the options of fairseq-train."""
        return [sys.executable, "-P", str(FAIRSEQ_TRAIN), *before, *self.arguments(name, folder)]

    def arguments(self, name: str, folder: str) -> list[str]:
        """Arguments of fairseq-train. ``options`` come last, to override the others."""
        shape = dict(encoder_layers=self.layers, encoder_embed_dim=self.embed_dim, encoder_attention_heads=self.heads)
        shape |= dict(encoder_ffn_embed_dim=4 * self.embed_dim, batch_size=self.batch, max_positions=self.n)
        training = dict(optimizer="adam", lr="1e-5", max_update=self.updates, seed=1, no_save=True)
        logging = dict(log_format="json", log_interval=1, disable_validation=True)
        # Without a world size fairseq uses all GPUs, with one batch each.
        device = dict(cpu=True) if self.device == "cpu" else dict(distributed_world_size=1)
        precision = {self.dtype: self.dtype != "fp32"}
        options = {**self.task_options(), **self._model_options(name), **shape, **training, **logging, **device}
        return [folder, *format_options({**options, **precision}), *(self.options if name == "ours" else ())]

    def _model_options(self, name: str) -> dict[str, Any]:
        if name == "roberta":
            return dict(arch="roberta_base")
        if name == "ours":
            plugin = dict(user_dir=PLUGIN, projected_dim=self.k, sharing="layerwise")
        else:
            sharing = dict(shared_kv_compressed=1, shared_layer_kv_compressed=1)
            plugin = dict(user_dir=authors_example_folder() / "linformer_src", compressed=self.n // self.k, **sharing)
        return dict(arch="linformer_roberta_base", **plugin)

    def task_options(self) -> dict[str, Any]:
        return dict(task="masked_lm", criterion="masked_lm", tokens_per_sample=self.n)


@dataclass(frozen=True)
class FinetuningCell(ProcessCell):
    """Processes that finetune models of n positions on real sentences."""

    n: int = 512
    batch: int = 32
    rounds: int = field(default=3, kw_only=True)
    classes: int = field(default=2, kw_only=True)
    data: str = field(kw_only=True)
    """Description of the data, with checksums."""
    folder: str = field(kw_only=True, compare=False, metadata={LOCAL_PATH: True})
    """The data that ``prepare`` wrote."""
    kind: ClassVar[str] = "finetuning"

    def prepare_data(self, folder: Path) -> str:
        return self.folder

    def task_options(self) -> dict[str, Any]:
        task = dict(task="sentence_prediction", criterion="sentence_prediction", num_classes=self.classes)
        separators = dict(init_token=0, separator_token=2)
        return dict(**task, **separators, shorten_method="truncate", required_batch_size_multiple=1)


@dataclass(frozen=True)
class SharesCell(ProcessCell):
    """Training processes of one shape, timed from inside: seconds of ``PARTS`` and ``REST`` of each update."""

    kind: ClassVar[str] = "shares"

    def measure(self) -> dict[str, Any]:
        """``seconds`` of each part, the rest and the whole, in each update after warm-up."""
        parts = (*PARTS, REST, "whole")
        seconds: dict[str, dict[str, list[float]]] = {name: {part: [] for part in parts} for name in self.models}
        for name, folder in self.turns():
            for update in self._updates(name, folder)[self.warm_up_updates :]:
                update[REST] = update["whole"] - sum(update[part] for part in PARTS)
                for part, value in update.items():
                    seconds[name][part].append(value)
        return {"seconds": seconds}

    def _updates(self, name: str, folder: str) -> list[dict[str, float]]:
        with TemporaryDirectory() as results:
            out = Path(results, "updates.json")
            run_command(self.command(name, folder, "--parts", str(out)), name)
            updates = json.loads(out.read_text())
        if len(updates) <= self.warm_up_updates:
            raise ValueError(f"{name} must make more than {self.warm_up_updates} updates, got {len(updates)}")
        return updates


def run_command(command: list[str], name: str) -> tuple[str, int]:
    """Run the training of a model with this process's number of PyTorch threads.

    Returns:
        its output, and its peak memory in bytes.

    Raises:
        torch.OutOfMemoryError: the output says that a GPU is out of memory, where fairseq skips the batch.
        ValueError: the command fails; the message has ``name`` and its last line of output.
    """
    peak = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        with open(path, "w") as log:
            threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **threads})
            try:
                while process.poll() is None:
                    peak = max(peak, _peak_bytes(process.pid))
                    time.sleep(SAMPLE_INTERVAL)
            finally:  # also if a signal ends this process
                process.kill()
                process.wait()
        output = path.read_text(errors="replace")
    if "CUDA out of memory" in output:
        raise torch.OutOfMemoryError(f"training {name} ran out of GPU memory")
    if process.returncode != 0:
        last = (output.strip().splitlines() or [""])[-1]
        raise ValueError(f"training {name} failed with status {process.returncode}: {last}")
    return output, peak


def _peak_bytes(pid: int) -> int:
    """The kernel's high-water mark. psutil lacks it on Linux, and ``wait4`` includes this process before exec."""
    return process_bytes("VmHWM", pid) or 0


def words_per_second(log: str, warm_up: int = 1) -> float:
    """Words per second in fairseq's JSON log, over all updates after the first ``warm_up``.

    Raises:
        ValueError: the log has no more updates.
    """
    updates = list(read_split(log.splitlines(), "train_inner"))
    if len(updates) <= warm_up:
        raise ValueError(f"the log must have more than {warm_up} updates, got {len(updates)}")
    updates = updates[warm_up:]
    return sum(update["wpb"] for update in updates) / sum(update["wpb"] / update["wps"] for update in updates)
