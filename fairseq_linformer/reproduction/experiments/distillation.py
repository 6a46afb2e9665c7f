"""How much of a pretrained encoder a Linformer keeps: converted without training, on short inputs, and distilled.

The share of the variance of the last layer's features on held-out text. Nothing is random but the order of the text,
so there are no seeds.

**Untrained**, staggered windows, at n = 128 and 512. *near*: k = n / 4 with W = 16 keeps at least 0.8 (prototypes with
0.82 to 0.87 were known).

**Short inputs**, N = 512, k = 128, W = 0 and 16. *exact*: graded windows keep 0.999 of inputs of at most k / 2 tokens.
*graded*: at each length below N they keep more than staggered windows, and at N at most 0.06 less. (Written when a
prototype's numbers were known.)

**Curve**, distilled on 4 million tokens, one run per model. *quarter*: k = n / 4 with W = 4 keeps at least 0.9, at n =
128 and 512. *distilled E and F*: at n = 128 each k with W = 4 keeps more than k = 1. Not enough evidence if a model is
missing and no other one fails. (Runs of 0.8 million tokens with 0.835 and 0.899 at k = 32 were known.)
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...training.explained_variance import explained_variance
from ...training.linearize import RUN
from ..display import Table, pivot
from ..encoder import EncoderModel, distill, open_encoder
from ..result import Inputs, Parts, Result, Row, Rows, environment, join, significant
from ..run import GRADED, STAGGERED, Model, Trained, convert, training_environment
from ..statistics import UNDECIDED, Check, Verdict, decide
from ..text import describe_text, find_shards
from .local_window import WIDEST, label, linformers

TITLE = "Distillation"
SAYS = "k = n / 4 with a local window keeps most of an encoder, distilled 90 % of its variance"
METRIC, CURVE_METRIC = "surviving_variance", "surviving_variance_curve"
MIN_SHARE, EXACT, MAX_LOSS, KEEPS = 0.8, 0.999, 0.06, 0.9
_CURVE = tuple(EncoderModel(128, 128 // divisor, local_window=w) for w in (4, 0) for divisor in (4, 2, 8))
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "lengths": (32,),
        "inputs": (4, 32),
        "windows": (0, 4),
        "tokens": 512,
        "distilled": (EncoderModel(32, 8, local_window=4),),
        "updates": 8,
        "per_update": 64,
        "amp": False,
    },
    "encoder": {
        "lengths": (128, 512),
        "inputs": (32, 64, 128, 256, 512),
        "windows": (0, WIDEST),
        "tokens": 16384,
        "distilled": (*_CURVE, EncoderModel(128, 1, local_window=4), EncoderModel(512, 128, local_window=4)),
        "updates": 2000,
        "per_update": 2048,
        "amp": True,
    },
}
"""``lengths``: n of the untrained models. ``inputs``: lengths of short inputs; the last is N, the n of their models,
with local windows of ``windows``. ``tokens``: of held-out text for each untrained model and length. ``distilled``: the
Linformers of the curve, each at its own n, for ``updates`` of ``per_update`` tokens."""


def curve_label(model: Model) -> str:
    return f"n={model.n}, {label(model.k or model.n, model.local_window)}"


UNTRAINED, SHORT, CURVE = "untrained", "short inputs", "curve "
PARTS: Parts = {
    scale: dict.fromkeys(
        (UNTRAINED, SHORT, *(CURVE + curve_label(model) for model in sizes["distilled"])), ("data", "encoder")
    )
    for scale, sizes in SIZES.items()
}


def run(part: str, scale: str, inputs: Inputs) -> Result:
    for model in SIZES[scale]["distilled"]:
        if part == CURVE + curve_label(model):
            return run_distilled(model, scale, inputs)
    return run_converted(part, scale, inputs)


def conversions(part: str, sizes: dict[str, Any]) -> list[tuple[str, Model, tuple[int, ...]]]:
    """Label, Linformer and lengths of its inputs."""
    if part == SHORT:
        n = sizes["inputs"][-1]
        return [
            (f"{start}, W={window}", Model(n, n // 4, start=start, local_window=window), sizes["inputs"])
            for window in sizes["windows"]
            for start in (STAGGERED, GRADED)
        ]
    return [
        (name, replace(model, start=STAGGERED), (n,)) for n in sizes["lengths"] for name, model in linformers(n).items()
    ]


def run_converted(part: str, scale: str, inputs: Inputs) -> Result:
    """The share of the variance of the last layer that untrained Linformers keep."""
    sizes, rows = SIZES[scale], Rows()
    shard, models = find_shards(inputs.text)[0], conversions(part, sizes)
    encoder = open_encoder(inputs.encoder, max(model.n for _, model, _ in models), folder_of(scale, inputs))
    checkpoint = read_checkpoint(encoder)
    with TemporaryDirectory() as folder:
        student = Path(folder, "student.pt")
        for name, model, lengths in models:
            write_checkpoint(convert(checkpoint, model), student)
            for n in lengths:
                shares = explained_variance(encoder, student, shard, n, sizes["tokens"])
                rows.append(share_row(shares[-1], name, n, model.k))
            student.unlink()
    configuration = {"encoder": checkpoint["provenance"]["imported"], "tokens": sizes["tokens"]}
    return Result(part, scale, rows, environment(inputs, describe_text(inputs.text)), configuration)


def folder_of(scale: str, inputs: Inputs) -> Path:
    return inputs.runs.absolute() / scale / "distillation"


def share_row(share: float, model: str, n: int, k: int | None) -> Row:
    return Row(metric=METRIC, value=significant(share), unit="share of variance", model=model, n=n, k=k)


def run_distilled(model: Model, scale: str, inputs: Inputs) -> Result:
    """The shares along a distillation, after none, a quarter, half and all of the updates."""
    sizes = SIZES[scale]
    updates, per_update = sizes["updates"], sizes["per_update"]
    training = {
        "max_update": updates,
        "batch_size": per_update // model.n,
        "lr": 2e-4,
        "amp": sizes["amp"],
        "measure_at": (updates // 4, updates // 2),
    }
    encoder = open_encoder(inputs.encoder, model.n, folder_of(scale, inputs))
    out, report = distill(model, training, inputs.text, encoder)
    shares = {0: report["variance_before"]}
    shares |= {int(update) * per_update: each for update, each in report["variance_at"].items()}
    shares[report["tokens_at_most"]] = report["variance_after"]
    name, points = curve_label(model), [(tokens, significant(each[-1])) for tokens, each in shares.items()]
    curve = Row(metric=CURVE_METRIC, model=name, n=model.n, points=points)
    rows = Rows([share_row(report["variance_after"][-1], name, model.n, model.k), curve])
    imported = read_checkpoint(encoder)["provenance"]["imported"]
    configuration = {"model": asdict(model), "distillation": training, "encoder": imported}
    circumstances = training_environment([Trained(out / RUN, model)], inputs)
    return Result(CURVE + name, scale, rows, circumstances, configuration)


# Verdicts


CLAIMS = {
    "near": "Without training, staggered k = n / 4 with a local window of 16 keeps most of a pretrained encoder.",
    "exact": "A converted encoder keeps its features on inputs of at most k / 2 tokens.",
    "graded": "Graded windows keep more on short inputs than staggered ones, and hardly less on the longest.",
    "quarter": "After 4 million tokens k = n / 4 with a local window of 4 explains at least 90 % of the variance.",
    "distilled E and F": "Also after distillation, E and F explain more than one average of the text.",
}


def rows_of(results: Sequence[Result], part: str) -> Rows:
    """The rows of all parts that begin with this word."""
    return join(result for result in results if result.part.startswith(part))


def keeps(rows: Rows, n: int, model: str, least: float) -> Check:
    """A model keeps at least this share of the variance on inputs of n tokens."""
    if not (row := rows.find(METRIC, model=model, n=n)):
        return Check(UNDECIDED, f"{model} is not measured")
    return decide(row.value >= least, f"n = {n}: {model} keeps {row.value:.4f}; needs ≥ {least:.4g}")


def keeps_more(rows: Rows, n: int, model: str, other: str, loss: float = 0.0) -> Check:
    """A model keeps more than another one, or at most ``loss`` less."""
    ours, theirs = (rows.find(METRIC, model=each, n=n) for each in (model, other))
    if not ours or not theirs:
        return Check(UNDECIDED, f"{model} or {other} is not measured")
    if loss:
        return keeps(rows, n, model, theirs.value - loss)
    text = f"n = {n}: {model} keeps {ours.value:.3f}; needs > {theirs.value:.3f} ({other})"
    return decide(ours.value > theirs.value, text)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    sizes = SIZES[results[0].scale] if results else SIZES["encoder"]
    untrained, short, curve = (rows_of(results, part) for part in (UNTRAINED, SHORT, CURVE))
    lengths = sorted({row.n for row in untrained})
    *shorter, longest = sizes["inputs"]
    windows = sizes["windows"] if short else ()
    exact = [n for n in shorter if n <= longest // 8]
    models = [model for model in sizes["distilled"] if curve and model.local_window]
    checks = {
        "near": [keeps(untrained, n, label(n // 4, WIDEST), MIN_SHARE) for n in lengths],
        "exact": [keeps(short, n, f"{GRADED}, W={w}", EXACT) for w in windows for n in exact],
        "graded": [
            keeps_more(short, n, f"{GRADED}, W={w}", f"{STAGGERED}, W={w}", MAX_LOSS if n == longest else 0.0)
            for w in windows
            for n in sizes["inputs"]
        ],
        "quarter": [keeps(curve, m.n, curve_label(m), KEEPS) for m in models if 4 * m.k == m.n],
        "distilled E and F": [
            keeps_more(curve, m.n, curve_label(m), curve_label(replace(m, k=1)))
            for m in models
            if m.n == 128 and m.k != 1
        ],
    }
    return [Verdict(name, claim, checks[name]) for name, claim in CLAIMS.items()]


# Tables


def tables(results: Sequence[Result]) -> list[Table]:
    untrained, short, curve = (rows_of(results, part) for part in (UNTRAINED, SHORT, CURVE))
    curves, found = curve.select(CURVE_METRIC), pivot("Untrained, staggered", untrained, "model", "n", decimals)
    found += pivot("Short inputs, by tokens", short, "n", "model", decimals)
    if curves:
        columns = ["model", *(f"{tokens:,.0f}" for tokens, _ in curves[0].points)]
        cells = [[row.model, *(f"{share:.3f}" for _, share in row.points)] for row in curves]
        found.append(Table("Distilled, by tokens", columns, cells))
    return found


def decimals(row: Row | None) -> str:
    return f"{row.value:.3f}" if row else ""
