"""Whole ``fairseq-train`` processes: tokens per second by fairseq's log, and peak host memory.

The models alternate and are finetuned for a few updates each.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import torch

from ..data.tokenizer_files import DICTIONARY
from ..fairseq_log import read_split
from ..resources import PLUGIN
from .measure import Setup
from .models import authors_folder, compression
from .rows import HEAD_DIM, Case, Row, lost_rows, pairs_with_others, ratio, repeated
from .timing import alternate, process_bytes

SAMPLE_INTERVAL = 0.01
"""Seconds between readings of a process's peak memory."""


def processes(cases: Sequence[Case], batch: int, setup: Setup, data: str, updates: int = 6) -> list[Row]:
    """Training processes, interleaved; the first half of their updates warms up.

    Args:
        cases: of ``FAIRSEQ_MODELS``, of one n.
        data: a task with classes that ``prepare`` wrote.
    """
    rates: dict[Case, list[float]] = {case: [] for case in cases}
    peaks: dict[Case, list[float]] = {case: [] for case in cases}
    classes = len((Path(data) / "label" / DICTIONARY).read_text().splitlines())
    words = {case: training_options(case, batch, updates, setup, classes) for case in cases}
    for _, case in alternate(cases, setup.rounds):
        if case not in rates:
            continue
        try:
            log, peak = run_training([data, *words[case]], case.model)
        except torch.OutOfMemoryError:
            del rates[case], peaks[case]
            continue
        rates[case].append(tokens_per_second(log, updates // 2))
        peaks[case].append(peak / 2**20)
    rows = []
    for case in rates:
        rows.append(Row(metric="tokens_per_second", unit="tokens per second", **case.keys, **repeated(rates[case])))
        rows.append(Row(metric="host_memory", unit="MiB", **case.keys, **repeated(peaks[case])))
    for case, other in pairs_with_others(rates):
        speed = ratio(rates[case], rates[other], "ratio of tokens per second")
        rows.append(Row(metric="speed_ratio", **case.keys, baseline=other.model, **speed))
    return [*rows, *lost_rows(cases, rates, {})]


def training_options(case: Case, batch: int, updates: int, setup: Setup, classes: int) -> list[str]:
    """Options of fairseq-train for classification."""
    layers, d, n = setup.layers, setup.embed_dim, case.n
    words = f"""
        --encoder-layers {layers} --encoder-embed-dim {d} --encoder-ffn-embed-dim {4 * d}
        --encoder-attention-heads {d // HEAD_DIM} --max-positions {n} --batch-size {batch} --max-update {updates}
        --optimizer adam --lr 1e-5 --seed 1 --no-save --disable-validation --log-format json --log-interval 1
        --task sentence_prediction --criterion sentence_prediction --num-classes {classes} --init-token 0
        --separator-token 2 --shorten-method truncate --required-batch-size-multiple 1
    """.split()
    if case.model == "roberta":
        words += ["--arch", "roberta_base"]
    elif case.model == "ours":
        words += ["--user-dir", str(PLUGIN), "--arch", "linformer_roberta_base", "--projected-dim", str(case.k)]
        words += ["--sharing", "layerwise", "--local-window", str(case.local_window)]
    else:
        words += ["--user-dir", str(authors_folder()), "--arch", "linformer_roberta_base"]
        words += ["--compressed", str(compression(n, case.k or n))]
        words += "--shared-kv-compressed 1 --shared-layer-kv-compressed 1".split()
    # Without a world size fairseq uses all GPUs, with one batch each.
    words += ["--cpu"] if setup.device == "cpu" else ["--distributed-world-size", "1"]
    return words + ["--fp16"] * (setup.dtype == "fp16")


def run_training(arguments: Sequence[str], name: str) -> tuple[str, int]:
    """Run fairseq-train with this process's number of PyTorch threads.

    Returns:
        its output, and its peak memory in bytes.

    Raises:
        torch.OutOfMemoryError: the output says that a GPU is out of memory, where fairseq skips the batch.
        ValueError: it fails; the message has ``name`` and its last line of output.
    """
    command = [sys.executable, "-m", "fairseq_cli.train", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    peak = 0
    with TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                peak = max(peak, process_bytes("VmHWM", process.pid) or 0)
                time.sleep(SAMPLE_INTERVAL)
        finally:  # also if a signal ends this process
            process.kill()
            process.wait()
        log.seek(0)
        output = log.read()
    if "CUDA out of memory" in output:
        raise torch.OutOfMemoryError(f"training {name} ran out of GPU memory")
    if process.returncode != 0:
        last = (output.strip().splitlines() or [""])[-1]
        raise ValueError(f"training {name} failed with status {process.returncode}: {last}")
    return output, peak


def tokens_per_second(log: str, warm_up: int) -> float:
    """Tokens per second in fairseq's JSON log, over all updates after the first ``warm_up``."""
    updates = list(read_split(log.splitlines(), "train_inner"))[warm_up:]
    return sum(update["wpb"] for update in updates) / sum(update["wpb"] / update["wps"] for update in updates)
