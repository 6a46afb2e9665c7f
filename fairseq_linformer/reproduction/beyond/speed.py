"""Training and inference on a CPU at base size, next to the authors' code and to RoBERTa in fairseq.

Each holds if each ratio is within its limit in every round, does not hold if one is beyond it in every round, and is
open if one was not measured; rounds are interleaved. **training**: a pretraining step, k = 256, layerwise, is as fast
as the authors' at n = 1,024, 2,048 and 4,096, 1.12 times as fast at 512, and takes at most 0.75 times their activation
memory at 4,096; a finetuning step is 2.4 times as fast as theirs with 32 tokens, as fast with 64, 1.2 times with 128,
and with 32 at least 1 / 1.1 times as fast as RoBERTa's. **short**: a finetuning step with 32, 64 and 128 tokens is
faster than that of a Transformer of this code, which has neither E nor F. **finetuning**: ``fairseq-train`` on SST-2,
the last three of six updates, is twice as fast as the authors', and 0.85 times as fast as RoBERTa's; its n = 512 is the
limit of positions, and its sentences are short. **inference**: at n = 16,384, k = 256, 5.3 times as fast as RoBERTa's
with SDPA, in two rounds (an earlier measurement had 5.39); the others have three. In training fairseq's RoBERTa
materializes its attention weights; **short** and the GPU compare with a Transformer of this code that has SDPA. With
fewer tokens than k **training** compares the code, and only **short** equation (7). Nor is **finetuning** about it:
real sentences are padded to the longest of their batch, and on a CPU this code computes those of similar length
together, while RoBERTa and the authors' code compute all padding. In a profile of four of these updates with one thread
(2026-11-30) this code spent 11 s in ``aten::mm``, RoBERTa 26 s. The random tokens of **training** have no padding.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from ...benchmark.comparisons import list_measurements
from ...benchmark.rows import FAIRSEQ_MODELS
from ...benchmark.timing import num_threads
from ...training.data import describe_data
from ..benchmarks import CPU, GPU, SMOKE, run_benchmark, tabulate
from ..finetuned import task_folder
from ..page import Table
from ..result import Inputs, Parts, Result, join
from ..verdict import UNDECIDED, Check, Estimate, Verdict

TITLE = "Speed"
SAYS = "trains faster than the authors' code; infers 5.3 times as fast as RoBERTa at n = 16,384"
THREADS = 2
"""Threads of PyTorch on a CPU."""
PARTS: Parts = {
    "smoke": {"training": ()},
    "cpu": {"training": (), "short": (), "inference": (), "finetuning": ("tasks",)},
    "gpu": {"training": ()},
}
LENGTHS, FINETUNING_LENGTHS, INFERENCE_LENGTHS = (512, 1024, 2048, 4096), (32, 64, 128), (512, 4096, 16384)
POSITIONS, K = 512, 256
"""n of finetuned models, and k of all."""
BASE = replace(CPU, layers=12)
PLAIN_MODELS = ("linformer", "transformer-eager", "transformer-sdpa")
TRAINING = {"cpu": (BASE, FAIRSEQ_MODELS, 2048), "gpu": (GPU, PLAIN_MODELS, 32_768)}
"""Setup, models, and tokens of a step: a large GPU computes fewer in less time than it takes to launch the kernels."""


def run(inputs: Inputs) -> Result:
    with nullcontext() if inputs.scale == "gpu" else num_threads(THREADS):
        timed, data = measurements(inputs), "random tokens"
        if inputs.part == "finetuning":
            data = f"sst-2: {describe_data(task_folder('sst-2', POSITIONS, inputs))}"
        return run_benchmark("speed", timed, inputs, data)


def measurements(inputs: Inputs) -> list[partial]:
    part, scale = inputs.part, inputs.scale
    if scale == "smoke":
        steps = partial(list_measurements, "training", SMOKE, PLAIN_MODELS, tokens=64)
        return [*steps(lengths=[32], ks=[16]), *steps(lengths=[16], ks=[8], positions=32)]
    if part == "training":
        setup, models, tokens = TRAINING[scale]
        steps = partial(list_measurements, "training", setup, models, ks=[K], tokens=tokens)
        return [*steps(lengths=LENGTHS), *steps(lengths=FINETUNING_LENGTHS, positions=POSITIONS)]
    if part == "short":
        same_code = ("linformer", "transformer-sdpa")
        return list_measurements("training", BASE, same_code, FINETUNING_LENGTHS, [K], 2048, positions=POSITIONS)
    if part == "inference":
        passes = replace(BASE, rounds=2)
        return list_measurements("inference", passes, FAIRSEQ_MODELS, INFERENCE_LENGTHS, [K], 4096)
    data = str(task_folder("sst-2", POSITIONS, inputs))
    return list_measurements("processes", BASE, FAIRSEQ_MODELS, [POSITIONS], [K], 32 * POSITIONS, data=data)


BOUNDS = {
    "training": [
        ("time_ratio", "authors", 512, 1.12),
        *(("time_ratio", "authors", n, 1.0) for n in (64, 1024, 2048, 4096)),
        ("time_ratio", "authors", 32, 2.4),
        ("time_ratio", "roberta", 32, 1 / 1.1),
        ("time_ratio", "authors", 128, 1.2),
        ("bytes_share", "authors", 4096, 0.75),
    ],
    "short": [("time_ratio", "transformer-sdpa", n, 1.0) for n in FINETUNING_LENGTHS],
    "finetuning": [("speed_ratio", "authors", 512, 2.0), ("speed_ratio", "roberta", 512, 0.85)],
    "inference": [("time_ratio", "roberta", 16384, 5.3)],
}
"""By part: metric, baseline, n, and the limit, which bytes must not exceed and others must reach."""
CLAIMS = {
    "training": "A training step of 32 to 4,096 tokens is faster than the authors', and with 4,096 takes less memory.",
    "short": "With 32 to 128 tokens a training step is faster than that of a Transformer of this code.",
    "finetuning": "Finetuning on short sentences is twice as fast as the authors', and nearly as fast as RoBERTa's.",
    "inference": "Inference on inputs of 16,384 tokens is 5.3 times as fast as RoBERTa's with SDPA.",
}


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    return [Verdict(part, claim, bound_checks(results, part)) for part, claim in CLAIMS.items()]


def bound_checks(results: Sequence[Result], part: str) -> list[Check]:
    """Empty unless the part was measured at scale cpu; on a GPU other models are timed."""
    rows, checks = join(result for result in results if result.part == part and result.scale == "cpu"), []
    for metric, baseline, n, limit in BOUNDS[part] if rows else ():
        text = f"{metric.replace('_', ' ')} over {baseline}, n = {n:,}"
        if row := rows.find(metric, baseline=baseline, n=n):
            estimate = Estimate(row.value, row.low, row.high, text)
            checks.append(estimate.at_most(limit) if metric == "bytes_share" else estimate.at_least(limit))
        else:
            checks.append(Check(UNDECIDED, f"{text} was not measured"))
    return checks


def tables(results: Sequence[Result]) -> list[Table]:
    """A table per part."""
    found = []
    for result in results:
        c = result.configuration
        title = f"{result.part.capitalize()}, {c['layers']} layers, {c['device']}, {c['dtype']}, {c['threads']} threads"
        found.append(tabulate(f"{title}: median [extremes of the rounds]", result.rows))
    return found
