"""How much of a pretrained encoder a Linformer keeps: untrained, on inputs of several lengths; and distilled.

The share of the variance of the last layer's features on held-out text. One seed: the order and the splits of the text
are random.

**Short inputs**, N = 512, k = 128, W = 0 and 16. Graded windows keep inputs of at most k / 2 tokens as they are.
*graded*: at each length below N they keep more than staggered windows (up to 64 tokens by construction, so 128 and 256
decide), and at N at most 0.06 less.

**Curve**, distilled on 4 million tokens, one run per model; the control at n = 128 is k = 2, which is <s> and one
average of all other tokens (weighted in E), and n = 512 has none, so no verdict is about it. *quarter*: k = n / 4 with
W = 4 keeps at least 0.9, the control with W = 4 less. *distilled E and F*: each k with W = 4 keeps more than the
control. Not enough evidence if a model is missing and no other one fails. (Until 2026-11-30 *quarter* had no control,
and asked the same of n = 512.) Here W does more than E and F: k = 2 with W keeps 0.859, k = n / 4 without it 0.837. The
stored k = 2 was distilled in fp32, as today's code does, the others in bf16. This is about variance: hit@1 of another
model (n = 512, k = 128, W = 16) was 73.7 before and 71.7 after distillation (`git show
fe161fac:results/retrieval/README.md`).
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...checkpoints.to_linformer import to_linformer
from ...training.explained_variance import explained_variance
from ...training.linearize import RUN
from ..encoder import distill, open_encoder
from ..page import Table, pivot
from ..result import Inputs, Parts, Result, Row, Rows, describe_text, find_shards, join, significant
from ..run import CONTROL_K, GRADED, STAGGERED, Model, Trained, label, trained_result
from ..verdict import UNDECIDED, Check, Verdict, decide

TITLE = "Distillation"
SAYS = "k = n / 4 with W = 4, distilled, explains 90 % of the variance, k = 2 less (n = 128, one run)"
FOLDER, METRIC, CURVE_METRIC = "distillation", "surviving_variance", "surviving_variance_curve"
MAX_LOSS, KEEPS = 0.06, 0.9
_CURVE = tuple(Model.graded(128, 128 // divisor, local_window=w) for w in (4, 0) for divisor in (4, 2, 8))
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "inputs": (4, 32),
        "windows": (0, 4),
        "tokens": 512,
        "distilled": (Model.graded(32, 8, local_window=4),),
        "updates": 8,
        "per_update": 64,
    },
    "encoder": {
        "inputs": (32, 64, 128, 256, 512),
        "windows": (0, 16),
        "tokens": 16384,
        "distilled": (*_CURVE, Model.graded(128, CONTROL_K, local_window=4), Model.graded(512, 128, local_window=4)),
        "updates": 2000,
        "per_update": 2048,
    },
}
"""``inputs``: lengths of short inputs; the last is N, the n of their models, with local windows of ``windows``.
``tokens``: of held-out text for each of these models and lengths. ``distilled``: the Linformers of the curve, each at
its own n, for ``updates`` of ``per_update`` tokens."""


SHORT, CURVE = "short inputs", "curve "


def curves_of(scale: str) -> dict[str, Model]:
    """The distilled Linformer of each part."""
    return {CURVE + model.label: model for model in SIZES[scale]["distilled"]}


PARTS: Parts = {scale: dict.fromkeys((SHORT, *curves_of(scale)), ("data", "encoder")) for scale in SIZES}


def run(inputs: Inputs) -> Result:
    model = curves_of(inputs.scale).get(inputs.part)
    return run_distilled(model, inputs) if model else run_converted(inputs)


def conversions(sizes: dict[str, Any]) -> list[list[Model]]:
    """Linformers of N without training, for each local window with staggered and with graded windows."""
    n = sizes["inputs"][-1]
    return [
        [Model(n, n // 4, start=start, local_window=window) for start in (STAGGERED, GRADED)]
        for window in sizes["windows"]
    ]


def run_converted(inputs: Inputs) -> Result:
    """The share of the variance of the last layer that untrained Linformers keep."""
    sizes, rows = SIZES[inputs.scale], []
    shard, lengths = find_shards(inputs.data)[0], sizes["inputs"]
    encoder = open_encoder(inputs.encoder, lengths[-1], inputs.folder / FOLDER)
    checkpoint = read_checkpoint(encoder)
    with TemporaryDirectory() as folder:
        student = Path(folder, "student.pt")
        for model in chain(*conversions(sizes)):
            write_checkpoint(to_linformer(checkpoint, **model.options), student)
            for length in lengths:
                shares = explained_variance(encoder, student, shard, length, sizes["tokens"])
                rows.append(share_row(shares[-1], model, length))
            student.unlink()
    configuration = {"encoder": checkpoint["provenance"]["imported"], "tokens": sizes["tokens"]}
    return inputs.result(rows, describe_text(inputs.data), configuration)


def share_row(share: float, model: Model, tokens: int) -> Row:
    """The share that a model keeps on inputs of so many tokens."""
    return Row(metric=METRIC, value=significant(share), unit="share of variance", **model.fields, tokens=tokens)


def run_distilled(model: Model, inputs: Inputs) -> Result:
    """The shares along a distillation, after none, a quarter, half and all of the updates."""
    sizes = SIZES[inputs.scale]
    updates, per_update = sizes["updates"], sizes["per_update"]
    training = {
        "max_update": updates,
        "batch_size": per_update // model.n,
        "lr": 2e-4,
        "measure_at": (updates // 4, updates // 2),
    }
    encoder = open_encoder(inputs.encoder, model.n, inputs.folder / FOLDER)
    out, report = distill(model, training, inputs.data, encoder)
    shares = {0: report["variance_before"]}
    shares |= {int(update) * per_update: each for update, each in report["variance_at"].items()}
    shares[report["tokens_at_most"]] = report["variance_after"]
    points = [(tokens, significant(each[-1])) for tokens, each in shares.items()]
    curve = Row(metric=CURVE_METRIC, **model.fields, points=points)
    rows = [share_row(report["variance_after"][-1], model, model.n), curve]
    imported = read_checkpoint(encoder)["provenance"]["imported"]
    configuration = {"model": asdict(model), "distillation": training, "encoder": imported}
    return trained_result(rows, [Trained(out / RUN)], inputs, configuration)


# Verdicts


CLAIMS = {
    "graded": "Graded windows keep more of 128 and 256 tokens than staggered ones, and hardly less of 512.",
    "quarter": "At n = 128, k = n / 4 with W = 4 explains 90 % of the variance after 4 million tokens; k = 2 does not.",
    "distilled E and F": "Also after distillation, E and F explain more than <s> and one weighted average of the text.",
}


def labeled(rows: Rows) -> Rows:
    """The rows with their models in words, for tables."""
    return Rows(Row(row, model=label(row)) for row in rows)


def keeps(rows: Rows, model: Model, tokens: int, limit: float, less: bool = False) -> Check:
    """A model keeps at least this share of the variance on inputs of so many tokens, or ``less``."""
    name = model.label
    if not (row := rows.find(METRIC, **model.fields, tokens=tokens)):
        return Check(UNDECIDED, f"{name} is not measured")
    holds, sign = (row.value < limit, "<") if less else (row.value >= limit, "≥")
    return decide(holds, f"{tokens} tokens: {name} keeps {row.value:.4f}; needs {sign} {limit:.4g}")


def keeps_more(rows: Rows, model: Model, other: Model, tokens: int, loss: float = 0.0) -> Check:
    """A model keeps more than another one, or at most ``loss`` less."""
    ours, theirs = (rows.find(METRIC, **each.fields, tokens=tokens) for each in (model, other))
    names = model.label, other.label
    if not ours or not theirs:
        return Check(UNDECIDED, f"{' or '.join(names)} is not measured")
    if loss:
        return keeps(rows, model, tokens, theirs.value - loss)
    text = f"{tokens} tokens: {names[0]} keeps {ours.value:.3f}; needs > {theirs.value:.3f} ({names[1]})"
    return decide(ours.value > theirs.value, text)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    sizes = SIZES[results[0].scale if results else "encoder"]
    short, curve = (join(results, part) for part in (SHORT, CURVE))
    distilled = [model for model in sizes["distilled"] if curve and model.local_window]
    pairs = [(model, c) for c in distilled if c.k == CONTROL_K for model in distilled if model.n == c.n and model != c]
    quarter = [
        check
        for model, control in pairs
        if 4 * model.k == model.n
        for check in (keeps(curve, model, model.n, KEEPS), keeps(curve, control, model.n, KEEPS, less=True))
    ]
    checks = {
        "graded": graded_checks(short, sizes),
        "quarter": quarter,
        "distilled E and F": [keeps_more(curve, *pair, pair[0].n) for pair in pairs],
    }
    return [Verdict(name, claim, checks[name]) for name, claim in CLAIMS.items()]


def graded_checks(rows: Rows, sizes: dict[str, Any]) -> list[Check]:
    """Graded windows against staggered ones, at each length; those that graded windows keep as they are come last."""
    lengths, longest = sizes["inputs"], sizes["inputs"][-1]
    return [
        keeps_more(rows, graded, staggered, n, MAX_LOSS if n == longest else 0.0)
        for staggered, graded in (conversions(sizes) if rows else ())
        for n in sorted(lengths, key=lambda n: n <= longest // 8)
    ]


# Tables


def tables(results: Sequence[Result]) -> list[Table]:
    short, curve = (labeled(join(results, part)) for part in (SHORT, CURVE))
    found = pivot("Short inputs, by tokens", short, "tokens", "model")
    if curves := curve.select(CURVE_METRIC):
        columns = ["model", *(f"{tokens:,.0f}" for tokens, _ in curves[0].points)]
        cells = [[row.model, *(f"{share:.3f}" for _, share in row.points)] for row in curves]
        found.append(Table("Distilled, by tokens", columns, cells))
    return found
