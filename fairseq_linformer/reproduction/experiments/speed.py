"""Training, finetuning and inference at base size take less time and memory than with the authors' code and others.

Each holds if the median over interleaved rounds of each measured ratio is within its limit. **training**: a
pretraining step at n = 512, k = 256, layerwise, is 1.12 times as fast as the authors', and takes at most 0.75 times
their activation memory at n = 4,096; a finetuning step is 2.4 times as fast as theirs with 32 tokens, 1.2 times with
128, and at least 1 / 1.1 times as fast as RoBERTa's. **finetuning**: a whole process on SST-2 is twice as fast as the
authors', and 0.85 times as fast as RoBERTa's. **inference**: at n = 16,384, k = 256, 5.3 times as fast as RoBERTa's
with SDPA. (An earlier command measured compiled processes.)
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ...benchmark import inference, training
from ...benchmark.cells import BenchmarkCell
from ...benchmark.models import FAIRSEQ_MODELS, PYPI_MODELS, missing_requirement
from ...benchmark.timing import num_threads
from ...benchmark.train_process import FinetuningCell, ProcessCell, SharesCell
from ...data.tasks import TASKS
from ...data.tokenizer_files import DICTIONARY
from ...models.dictionaries import read_dictionary
from ...training.data import describe_data
from ..cells import GPU, SMOKE, measure
from ..display import Table
from ..finetuned import task_folder
from ..result import Inputs, Parts, Result, in_words, join
from ..statistics import Check, Verdict, decide

TITLE = "Speed"
SAYS = "less time and memory than the authors' code"
THREADS = 2
"""Of PyTorch, on a CPU."""
_ALL: dict[str, tuple[str, ...]] = dict.fromkeys(("training", "training, peers", "process", "shares", "inference"), ())
PARTS: Parts = {
    "smoke": {"training": ()},
    "cpu": {**_ALL, "finetuning": ("tasks",)},
    "gpu": {**_ALL, "finetuning": ("tasks",)},
}
LENGTHS, FINETUNING_LENGTHS, WHOLE_LENGTHS = (512, 1024, 2048, 4096), (32, 64, 128), (512, 4096, 16384)


def run(part: str, scale: str, inputs: Inputs) -> Result:
    with nullcontext() if scale == "gpu" else num_threads(THREADS):
        return measure(part, scale, build_cells(part, scale, inputs), inputs, "speed")


def build_cells(part: str, scale: str, inputs: Inputs) -> Sequence[BenchmarkCell]:
    base: dict[str, Any] = dict(device="cpu", dtype="fp32", layers=12, embed_dim=768, heads=12)
    if scale == "smoke":
        small = {**{name: SMOKE[name] for name in base}, "rounds": 1, "warm_up": 0, "k": 16}
        return training.build_cells((32,), (16,), 64, models=("ours-modules", "transformer-sdpa"), **small)
    if scale == "gpu":
        base |= {"device": "cuda", "dtype": "bf16"}
    base["k"] = 256
    if part.startswith("training"):
        options = {**base, **({**GPU, "tokens": training.TOKENS_PER_STEP["cuda"]} if scale == "gpu" else {})}
        peers = tuple(name for name in PYPI_MODELS if missing_requirement(name) is None)
        models = ("ours", *peers) if part.endswith("peers") else FAIRSEQ_MODELS
        return training.build_cells(LENGTHS, FINETUNING_LENGTHS, models=models, **options)
    if part == "inference":
        tokens = inference.TOKENS_PER_BATCH[base["device"]]
        return [inference.WholeModelCell(n, tokens, rounds=2, **base) for n in WHOLE_LENGTHS]
    if part == "finetuning":
        folder = task_folder("sst-2", 512, inputs)
        symbols = len(read_dictionary(folder / "input0" / DICTIONARY)) + 1  # <mask>
        task: dict[str, Any] = {
            "classes": len(TASKS["sst-2"].classes),
            "data": f"sst-2: {describe_data(folder)}",
            "folder": str(folder),
        }
        return [FinetuningCell(vocabulary=symbols, **task, **base)]
    return [(ProcessCell if part == "process" else SharesCell)(LENGTHS[0], 1, **base)]


BOUNDS: dict[str, list[tuple[str, dict[str, Any], float, float]]] = {
    "training": [
        ("time_ratio", {"baseline": "authors", "n": 512, "phase": "pretraining"}, 1.12, float("inf")),
        ("time_ratio", {"baseline": "authors", "n": 32, "phase": "finetuning"}, 2.4, float("inf")),
        ("time_ratio", {"baseline": "roberta", "n": 32, "phase": "finetuning"}, 1 / 1.1, float("inf")),
        ("time_ratio", {"baseline": "authors", "n": 128, "phase": "finetuning"}, 1.2, float("inf")),
        ("bytes_share", {"baseline": "authors", "n": 4096, "phase": "pretraining"}, 0.0, 0.75),
    ],
    "finetuning": [
        ("speed_ratio", {"baseline": "authors", "n": 512}, 2.0, float("inf")),
        ("speed_ratio", {"baseline": "roberta", "n": 512}, 0.85, float("inf")),
    ],
    "inference": [("time_ratio", {"baseline": "roberta", "n": 16384}, 5.3, float("inf"))],
}
"""By part: metric, where, and the limits of its median."""
CLAIMS = {
    "training": "A training step takes less time and memory than with the authors' code.",
    "finetuning": "A finetuning process is at least twice as fast as the authors', and nearly as fast as RoBERTa's.",
    "inference": "Inference on long inputs is several times as fast as RoBERTa's.",
}


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    return [Verdict(part, claim, bound_checks(results, part)) for part, claim in CLAIMS.items()]


def bound_checks(results: Sequence[Result], part: str) -> list[Check]:
    rows, checks = join(result for result in results if result.part == part), []
    for metric, where, least, most in BOUNDS[part]:
        if row := rows.find(metric, model="ours", **where):
            limit = f"≥ {least:.3g}" if most == float("inf") else f"≤ {most:.3g}"
            text = f"{metric.replace('_', ' ')} over {row.baseline}, n = {row.n:,} {in_words(row)}; needs {limit}"
            checks.append(decide(least <= row.value <= most, text))
    return checks


def tables(results: Sequence[Result]) -> list[Table]:
    """A row per number, the parts with a limit first."""
    found = []
    for result in sorted(results, key=lambda result: result.part not in BOUNDS):
        c, cells = result.configuration, []
        for row in result.rows:
            model = row.model if row.baseline is None else f"{row.model} over {row.baseline}"
            quantity = row.part or row.metric.replace("_", " ")
            unit = "" if quantity.endswith("per second") else row.unit
            cells.append([row.phase or "", f"{row.n:,}", model, quantity, in_words(row, 4), unit])
        title = f"{result.part.capitalize()}, {c['layers']} layers, {c['device']}, {c['dtype']}, {c['threads']} threads"
        found.append(Table(title, ["phase", "n", "model", "quantity", "median [extremes]", "unit"], cells))
    return found
