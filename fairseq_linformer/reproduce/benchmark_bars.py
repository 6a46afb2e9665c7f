"""What this project promises of time and memory at base size, and whether it is kept, from the ledger alone."""

import re
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ..benchmark.timing import Spread
from . import paper
from .benchmarks import entry_with
from .ledger import Entry, Measurement
from .verdict import at_base_size

MISSING = "not measured"


@dataclass(frozen=True)
class Bar:
    """One promise about one measurement."""

    words: str
    entry: str
    """Its identifier; without layers, that with most of them."""
    measurement: str
    limit: str
    """In words."""
    kept: Callable[[float], bool]


def _at_least(words: str, entry: str, measurement: str, limit: float) -> Bar:
    return Bar(words, entry, measurement, f"at least {limit:g}", lambda x: x >= limit)


def _at_most(words: str, entry: str, measurement: str, limit: float) -> Bar:
    return Bar(words, entry, measurement, f"at most {limit:g}", lambda x: x <= limit)


STEP, WHOLE, TASK = "benchmark-training-cpu-fp32-l12", "benchmark-whole-cpu-fp32-l12", "benchmark-finetuning-cpu-fp32-l12"
CUDA_STEP = "benchmark-training-cuda-bf16-l12"
BARS: Tuple[Bar, ...] = (
    _at_least("pretraining step, n = 512, k = 256, layerwise: the authors' time over ours", STEP, "pretraining n=512: authors / ours", 1.12),
    _at_least("training step, 32 tokens: the authors' time over ours", STEP, "finetuning n=32: authors / ours", 2.4),
    Bar("training step, 32 tokens: RoBERTa's time over ours", STEP, "finetuning n=32: roberta / ours", "at least 0.91", lambda x: x >= 1 / 1.1),
    _at_least("training step, 128 tokens: the authors' time over ours", STEP, "finetuning n=128: authors / ours", 1.2),
    _at_least("a whole process on SST-2: our tokens a second over the authors'", TASK, "n=512: ours / authors", 2),
    _at_least("a whole process on SST-2: our tokens a second over RoBERTa's", TASK, "n=512: ours / roberta", 0.85),
    _at_least("inference, n = 16,384, k = 256: RoBERTa with SDPA over ours", WHOLE, "n=16384: roberta / ours", 5.3),
    _at_most("time per token at n = 16,384 over that at n = 512", "benchmark-pertoken-cpu-fp32-l12", "n=16384 / n=512", 1.15),
    _at_most("activation memory of a training step, n = 4,096: ours over the authors'", STEP, "pretraining n=4096: bytes of ours / authors", 0.75),
)
"""On a CPU of 2 cores."""
CUDA_BARS: Tuple[Bar, ...] = (
    _at_least("training in bf16, n = 512: the authors' time over ours", CUDA_STEP, "pretraining n=512: authors / ours", 1.5),
    Bar("utilisation of a step in bf16, n = 512, fairseq's model", CUDA_STEP, "pretraining n=512: utilisation by ours", "stated", lambda x: True),
    Bar("the same, modules alone", f"{CUDA_STEP}-bare", "pretraining n=512: utilisation by ours-modules", "stated", lambda x: True),
)


def told(m: Optional[Measurement], ratio: bool = True) -> str:
    """A number with its spread, for a table; a ratio that is not told apart from 1 is "equal"."""
    if m is None:
        return MISSING
    if m.spread is None:
        return f"{m.value:.3g}"
    equal = ratio and Spread(m.value, *m.spread, m.repetitions).equal
    return f"{'equal, ' * equal}{m.value:.3g} [{m.spread[0]:.3g}, {m.spread[1]:.3g}]"


def setting(entry: Entry) -> str:
    """Layers and what they ran on: threads of a CPU, the name of a GPU."""
    c = entry.configuration
    where = [f"{c['threads']} thread{'s' * (c['threads'] > 1)}"] if entry.scale != "gpu" and "threads" in c else entry.hardware.get("accelerators", [])[:1]
    return ", ".join([f"{c['layers']} layer{'s' * (c['layers'] > 1)}", *where])


def lines(found: Sequence[Entry]) -> List[str]:
    """Two tables in Markdown. What is promised at base size is not judged on an entry of another."""
    found = [entry for entry in found if at_base_size(entry)]
    head = "| promised | measured | | |", "|---|---|---|---|---|"
    cpu = [_row(found, bar) for bar in BARS]
    cuda = [_paper_row(found), _fused_row(found), *(_row(found, bar) for bar in CUDA_BARS)]
    return ["## What is promised", "", f"| on a CPU of 2 cores, base size {head[0]}", head[1], *cpu, "",
            f"| on a GPU, base size {head[0]}", head[1], *cuda, ""]  # fmt: skip


def _row(found: Sequence[Entry], bar: Bar) -> str:
    entry = entry_with(found, bar.measurement, bar.entry)
    m = entry and entry.measured[bar.measurement]
    said = "" if m is None else _kept(bar, m)
    return f"| {bar.words} | {bar.limit} | {told(m, ratio=False)} | {said} | {setting(entry) if entry else ''} |"


def _kept(bar: Bar, m: Measurement) -> str:
    """By the median; whether by every round too is told."""
    whole = all(bar.kept(value) == bar.kept(m.value) for value in m.spread or ())
    return ("kept" if bar.kept(m.value) else "missed") + ("" if whole else " by the median, not in every round")


def _on_cuda(found: Sequence[Entry]) -> List[Entry]:
    """Table 3 at base size, in every precision that was measured."""
    return [e for e in found if re.fullmatch("benchmark-inference-cuda-(fp32|fp16|bf16)-l12", e.identifier)]


def _paper_row(found: Sequence[Entry]) -> str:
    """Every cell of both halves of Table 3. Where the Transformer does not fit, its bytes of a sentence stand for its batches,
    and its time has no number that could be kept or missed."""
    counts = dict.fromkeys(("at or above", "below", "that do not fit", MISSING), 0)
    entries = _on_cuda(found)
    for entry in entries:
        for half, suffix in ((paper.TABLE_3_TIME, ""), (paper.TABLE_3_MEMORY, ", largest batch")):
            for n, row in half.items():
                for k, theirs in zip(paper.TABLE_3_DIMENSIONS, row):
                    what = f"n={n} k={k}: eager / linformer"
                    each = entry.measured.get(f"{what}, bytes a sentence")
                    m = entry.measured.get(what + suffix) or (each if suffix else None)
                    counts[MISSING if m is None and each is None else "that do not fit" if m is None else
                           "at or above" if m.value >= theirs else "below"] += 1  # fmt: skip
    return _counted("every cell of Table 3 against `eager`, time and memory", "the paper's or more", counts, entries)


def _fused_row(found: Sequence[Entry]) -> str:
    counts = {"ahead": 0, "below": 0, MISSING: 0}
    entries = _on_cuda(found)
    for entry in entries:
        for n in (n for n in paper.TABLE_3_TIME if n >= 1024):
            m = entry.measured.get(f"n={n} k=128: sdpa / linformer")
            counts[MISSING if m is None else "ahead" if min([m.value, *(m.spread or [])]) > 1 else "below"] += 1
    return _counted("Table 3 against `sdpa`, k = 128, every n from 1,024", "above 1 by more than the spread", counts, entries)


def _counted(words: str, limit: str, counts: Dict[str, int], entries: Sequence[Entry]) -> str:
    """Missed if a cell is, kept if all were measured."""
    measured = sum(n for what, n in counts.items() if what != MISSING)
    said = f"of {sum(counts.values())} cells {', '.join(f'{n} {what}' for what, n in counts.items() if n)}" if measured else MISSING
    judged = "missed" if counts["below"] else "" if counts[MISSING] or not measured else "kept"
    return f"| {words} | {limit} | {said} | {judged} | {'; '.join(dict.fromkeys(map(setting, entries)))} |"
