"""Table 1: the time, and the operations, of a layer as n grows.

    fairseq-linformer reproduce table-1 --scale cpu
    fairseq-linformer reproduce operations --scale cpu
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...benchmark import scaling
from ...benchmark.encoders import transformer
from ...benchmark.flops import counted
from ...benchmark.timing import spread_of
from ...config import LinformerConfig
from ...modules import LinformerEncoder
from .. import paper
from ..cells import Cell, CellExperiment, CellKind, evidence, once, rule, spread
from ..counting import Counted
from ..paper import CellResult
from ..records import Measurement, Record
from ..registry import Claim
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, Estimate, Verdict

FLAT, STEEP = 0.15, 0.5
"""Exponents of n in the time per token: at most, of what is linear; at least, of what is quadratic."""
SAME_COUNT = 1.05
"""The largest ratio of operation counts per token at which they still count as equal for every n."""
ALMOST_ALL = 0.9
FAMILIES = {"recurrent": ("recurrent",), "transformer": ("transformer-eager", "transformer-sdpa"),
            "sparse": ("bigbird", "longformer"), "reformer": ("reformer",), "linformer": ("linformer",)}  # fmt: skip
"""The rows of Table 1, and the models that stand for each."""
MAX_LINES = 10

# Time


def _measurements(cell: Cell) -> Iterator[Measurement]:
    c = cell["configuration"]
    for model, values in cell["measured"]["seconds"].items():
        yield Measurement(metric="microseconds_per_token", model=model, n=c["n"],
                          **spread(spread_of(values), "microseconds a token", 1e6 / c["tokens"]))  # fmt: skip


def _exponents(cells: Sequence[Cell]) -> Iterator[Measurement]:
    """Of n in the time per token, over all lengths of each model and over the longer half of them."""
    for model in dict.fromkeys(model for cell in cells for model in cell["configuration"]["models"]):
        points = [(cell["configuration"]["n"], spread_of(cell["measured"]["seconds"][model]).median / cell["configuration"]["tokens"])
                  for cell in cells if model in cell["measured"]["seconds"]]  # fmt: skip
        for metric, some in (("exponent", points), ("exponent_longer_half", points[len(points) // 2 :])):
            if len(some) >= 2:
                yield Measurement(metric=metric, model=model, **once(scaling.exponent(*zip(*some)), "exponent of n"))


KIND = CellKind(
    "scaling",
    "Time of a forward pass at a fixed number of tokens for the families of Table 1 and later ones, random weights, equal sizes: "
    "microseconds a token, and the exponent of n in it",
    "Table 1, and Figure 2, top right", _measurements, _exponents,
)  # fmt: skip


def _growth(record: Record) -> list[tuple[str, str, float]]:
    """Model, sentence, exponent."""
    found = []
    for m in record.select("exponent_longer_half"):
        lengths = sorted(t.n for t in record.select("microseconds_per_token", model=m.model))
        longer = lengths[len(lengths) // 2 :]
        if longer:
            said = f"{m.model}: time per token grows as n to the {m.value:.2f} from n = {longer[0]} to {longer[-1]}"
            found.append((m.model, said, m.value))
    return found


def time_checks(record: Record) -> list[Check]:
    checks, seen = [], set()
    for model, said, value in _growth(record):
        family = next((family for family in ("linformer", "transformer") if model.startswith(family)), None)
        seen.add(family)
        if family == "linformer":
            checks.append(Check(HOLDS if value <= FLAT else FAILS, f"{said}, at most {FLAT} wanted"))
        elif family == "transformer":
            checks.append(Check(HOLDS if value >= STEEP else UNDECIDED, f"{said}, at least {STEEP} wanted"))
    missing = [family for family in ("linformer", "transformer") if family not in seen]
    return checks + [Check(UNDECIDED, f"{record.identifier} has no exponent of a {family.capitalize()}") for family in missing] * bool(checks)


def time_verdict(records: Sequence[Record], scale: str) -> Verdict:
    """Of the Linformer and the Transformer; other families are reported beside."""
    verdict = rule("table-1", "benchmark-scaling-*", time_checks)(records, scale)
    used = [r for r in evidence(records, "table-1", scale) if r.identifier in verdict.records]
    others = [said for r in used for model, said, _ in _growth(r) if not model.startswith(("linformer", "transformer"))]
    return replace(verdict, remarks=[*verdict.remarks, *others])


TIME = Claim(
    "table-1", "Table 1, section 1", "A layer of the Linformer takes time in proportion to n, one of the Transformer to its square.",
    f"Time per token as n to a power, over the longer half of the lengths: holds if the power is at most {FLAT} for the Linformer and at "
    f"least {STEEP} for the Transformer; does not hold if it is more for the Linformer; not enough evidence if it is less for the "
    "Transformer.", time_verdict,
)  # fmt: skip
_COMMON = dict(device="cpu", dtype="fp32", rounds=3, embed_dim=768, heads=12, warm_up=1)
SMOKE = {**_COMMON, "layers": 1, "rounds": 2, "embed_dim": 64, "heads": 1, "warm_up": 0}
CPU = {**_COMMON, "layers": 2}
GPU = {**_COMMON, "layers": 12, "device": "cuda", "dtype": "bf16"}
"""Settings of benchmark cells by scale."""


class Table1(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Complexities as printed, beside the exponent of n in the measured time of a layer."""
        rows, names = [], {}
        for family, models in FAMILIES.items():
            per_layer, sequential = (paper.CELLS[f"table-1-{family}-{column}"] for column in ("per-layer", "sequential"))
            names |= {(len(rows), 1): per_layer.identifier, (len(rows), 2): sequential.identifier}
            for model in models:
                measured = [_of_layer(r, model) for r in records] or [None]
                ours = (MISSING if m is None else f"n^{m.value:.2f}" for m in measured)
                rows.append([family, per_layer.printed, sequential.printed, model, *ours])
        heads = [f"time of a layer, {r.identifier.removeprefix('benchmark-scaling-')}" for r in records] or ["time of a layer, ours"]
        caption = ("Table 1: complexity as printed; ours is the exponent of n over the longer half of the lengths, at as many tokens for "
                   "each n (which is why a recurrent model's time grows: of fewer and longer sentences it takes more steps one after "
                   "the other)")  # fmt: skip
        return [Table(["family", "a layer (paper)", "sequential (paper)", "model", *heads], rows, caption, names=names)]

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        for cell in paper.CELLS.values():
            if cell.table == "table-1":
                models = FAMILIES[cell.row] if cell.column == "per layer" else ()
                yield cell, [CellResult((r.identifier,), r.scale, model, m) for r in records for model in models if (m := _of_layer(r, model))]


def _of_layer(record: Record, model: str) -> Measurement | None:
    """The exponent of a layer's time, one more than that of a token's."""
    m = record.find("exponent_longer_half", model=model)
    return m and m.model_copy(update={"value": 1 + m.value, "interval": m.interval and tuple(1 + end for end in m.interval)})


def time_charts(records: Sequence[Record]) -> list[Chart]:
    """Time per token over n, at equal numbers of tokens."""
    charts = []
    for record in records:
        times = record.select("microseconds_per_token")
        lines = {model: [(m.n, m.value) for m in times if m.model == model] for model in record.configuration.get("models", ())}
        lines = {model: points for model, points in lines.items() if points}
        if len(lines) > MAX_LINES:
            lines = {model: points for model, points in lines.items() if model.startswith(("linformer", "transformer"))}
        if lines:
            charts.append(Chart(f"figure-2-{record.identifier}", f"Figure 2 (top right), {record.identifier}", "n", "microseconds a token",
                                [Series(model, [points]) for model, points in lines.items()], log_x=True, log_y=True))  # fmt: skip
    return charts


# Operations

OPERATIONS = {"smoke": (64, 2, 16, (64, 128, 256)), "cpu": (768, 12, 256, (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536))}
"""Width, heads, k and lengths, by scale."""


def count_operations(scale: str) -> Iterator[Measurement]:
    """Of the matrix products of one layer, forward, as PyTorch counts them."""
    width, heads, k, lengths = OPERATIONS[scale]
    for n in lengths:
        config = LinformerConfig(vocab_size=8, max_positions=n, projected_dim=k, sharing="layerwise", layers=1, embed_dim=width,
                                 ffn_embed_dim=4 * width, attention_heads=heads, dropout=0.0, attention_dropout=0.0)  # fmt: skip
        for model, build in (("linformer", LinformerEncoder), ("transformer", lambda c: transformer(c, "eager"))):
            # Shapes without memory. PyTorch counts no operations of a fused kernel.
            with FakeTensorMode(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                encoder, tokens = build(config).eval(), torch.full((1, n), 4)
                per_token = counted(lambda: encoder(tokens, padded=False)) / n
            yield Measurement(metric="operations_per_token", model=model, n=n, value=per_token, unit="operations a token")


def operation_checks(record: Record) -> list[Check]:
    counts = {(m.n, m.model): m.value for m in record.select("operations_per_token")}
    lengths = sorted({n for n, _ in counts})
    first, before, last = lengths[0], lengths[-2], lengths[-1]
    ratio = counts[last, "linformer"] / counts[first, "linformer"]
    power = math.log(counts[last, "transformer"] / counts[before, "transformer"]) / math.log(last / before)
    flat = Estimate(ratio, ratio, ratio, f"linformer: operations a token at n = {last} over those at n = {first}").at_most(SAME_COUNT)
    said = f"transformer: operations a token grow as n to the {power:.2f} from {before} to {last}, at least {ALMOST_ALL} wanted"
    return [flat, Check(HOLDS if power >= ALMOST_ALL else UNDECIDED, said)]


OPERATION_COUNT = Claim(
    "table-1-operations", "Table 1, section 1",
    "The operations of a layer of the Linformer are in proportion to n, those of the Transformer to its square.",
    f"Operations of the matrix products, a token: holds if the Linformer's at the longest n are at most {SAME_COUNT:g} times those at the "
    f"shortest, and the Transformer's grow as n to at least {ALMOST_ALL} over the last doubling; does not hold if the Linformer's grow "
    "more; not enough evidence if the Transformer's grow less, at lengths where other parts of the layer outweigh attention.",
    rule("operations", "operations-*", operation_checks),
)  # fmt: skip


def _operations(scale: str, command: str) -> Record:
    begun = time.monotonic()
    width, heads, k, lengths = OPERATIONS[scale]
    return Counted.record(
        "operations", scale, command, begun, list(count_operations(scale)), {"where": "Table 1"},
        f"Operations a token of the matrix products of a layer, forward, k = {k}",
        {"width": width, "heads": heads, "k": k, "lengths": list(lengths)},
    )  # fmt: skip


EXPERIMENTS = (
    Table1("table-1", "Table 1", [TIME], [KIND], {
        "smoke": lambda: scaling.rows((64, 128), models=("transformer-eager", "transformer-sdpa", "linformer"), k=16, **SMOKE),
        "cpu": lambda: scaling.rows((512, 1024, 2048, 4096, 8192), models=tuple(scaling.families()), k=256, usable_gib=8.0, **CPU),
        "gpu": lambda: scaling.rows(models=tuple(scaling.families()), k=256, usable_gib=70.0, **GPU),
    }),
    Counted("operations", "Table 1, in operations", [OPERATION_COUNT], tuple(OPERATIONS), _operations),
)  # fmt: skip
