"""How much of a pretrained encoder a Linformer keeps: converted without training, on short inputs, and distilled.

The share of the variance of the last layer's features on held-out text. Nothing is random but the order of the text,
so there are no seeds.

**Untrained**, staggered windows, at n = 128 and 512. *window*: at every k (n / 8, n / 4, n / 2) W = 4 keeps more than
W = 0. *near*: k = n / 4 with W = 16 keeps at least 0.8 (prototypes with 0.82 to 0.87 were known). *E and F*: with W =
4 and 16, k = n / 4 keeps more than k = 1.

**Short inputs**, N = 512, k = 128, W = 0 and 16. *exact*: graded windows keep 0.999 of inputs of at most k / 2 tokens.
*graded*: at each length below N they keep more than staggered windows, and at N at most 0.06 less. (Written when a
prototype's numbers were known.)

**Curve**, distilled on 4 million tokens, one run per model. *tokens*: the share of each model rises from 0 to 1, 2 and
4 million tokens. *quarter*: k = n / 4 with W = 4 keeps at least 0.9, at n = 128 and 512. *distilled E and F*: at n =
128 each k with W = 4 keeps more than k = 1. Not enough evidence if a model is missing and no other one fails. (Runs of
0.8 million tokens with 0.835 and 0.899 at k = 32 were known.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ...checkpoints.files import MODEL, read_checkpoint, write_checkpoint, write_model
from ...checkpoints.to_linformer import from_roberta
from ...linearization.explained_variance import explained_variance
from ...linearization.linearize import RUN
from ..display import Panel, Table
from ..encoder import GRADED, STAGGERED, Distillation, EncoderModel, describe, distill, read_encoder, write_transformer
from ..result import Inputs, Result, Row, Rows, environment, join, significant
from ..run import Model, Trained, environment_of
from ..statistics import UNDECIDED, Check, Verdict, decide
from ..text import describe_text, find_shards
from .local_window import K_DIVISORS, LOCAL_WINDOWS, WIDEST, label

TITLE = "Distillation"
SAYS = "k = n / 4 with a local window keeps most of an encoder, distilled 90 % of its variance"
METRIC = "surviving_variance"
MIN_SHARE, EXACT, MAX_LOSS, KEEPS = 0.8, 0.999, 0.06, 0.9


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        lengths: n of the untrained models.
        inputs: lengths of short inputs; the last one is N, the n of their models.
        tokens: of held-out text for each untrained model and length.
        distilled: the Linformers of the curve; each is distilled at its own n.
        updates, per_update: of distillation, and tokens per update; the share is also measured at a quarter and half.
    """

    lengths: tuple[int, ...]
    inputs: tuple[int, ...]
    windows: tuple[int, ...]
    tokens: int
    distilled: tuple[EncoderModel, ...]
    updates: int
    per_update: int
    amp: bool

    @property
    def positions(self) -> int:
        return self.inputs[-1]

    def distillation(self, model: EncoderModel) -> Distillation:
        at = (self.updates // 4, self.updates // 2)
        return Distillation(self.updates, self.per_update // model.n, 2e-4, self.amp, measure_at=at)


_CURVE = tuple(EncoderModel(128, 128 // divisor, local_window=w) for w in (4, 0) for divisor in (4, 2, 8))
SIZES = {
    "smoke": Sizes((32,), (4, 32), (0, 4), 512, (EncoderModel(32, 8, local_window=4),), 8, 64, False),
    "encoder": Sizes(
        (128, 512),
        (32, 64, 128, 256, 512),
        (0, WIDEST),
        16384,
        (*_CURVE, EncoderModel(128, 1, local_window=4), EncoderModel(512, 128, local_window=4)),
        2000,
        2048,
        True,
    ),
}


def curve_label(model: EncoderModel) -> str:
    return f"n={model.n}, k={model.k}, W={model.local_window}"


UNTRAINED, SHORT, CURVE = "untrained", "short inputs", "curve "
PARTS = {
    scale: dict.fromkeys(
        (UNTRAINED, SHORT, *(CURVE + curve_label(model) for model in sizes.distilled)), ("data", "encoder")
    )
    for scale, sizes in SIZES.items()
}


def run(part: str, scale: str, inputs: Inputs) -> Result:
    sizes = SIZES[scale]
    if part.startswith(CURVE):
        return run_distilled(next(m for m in sizes.distilled if CURVE + curve_label(m) == part), scale, inputs)
    return run_converted(part, scale, inputs)


def conversions(part: str, sizes: Sizes) -> list[tuple[str, EncoderModel, tuple[int, ...]]]:
    """Label, Linformer and lengths of its inputs."""
    n, found = sizes.positions, []
    if part == SHORT:
        for window in sizes.windows:
            for start in (STAGGERED, GRADED):
                model = EncoderModel(n, n // 4, local_window=window, start=start)
                found.append((f"{start}, W={window}", model, sizes.inputs))
        return found
    for n in sizes.lengths:
        for k in (1, *(n // divisor for divisor in K_DIVISORS)):
            for window in LOCAL_WINDOWS:
                model = EncoderModel(n, k, local_window=window, start=STAGGERED)
                found.append((label(k, window), model, (n,)))
    return found


def run_converted(part: str, scale: str, inputs: Inputs) -> Result:
    """The share of each layer's variance that untrained Linformers keep."""
    sizes, rows = SIZES[scale], Rows()
    shard, models = find_shards(inputs.text)[0], conversions(part, SIZES[scale])
    torch.manual_seed(1)  # of a new head of masked language modeling, and of E and F
    checkpoint, vocabulary = read_encoder(inputs.encoder, max(model.n for _, model, _ in models))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_model(folder, checkpoint, vocabulary)
        for name, model, lengths in models:
            student = folder / "student.pt"
            write_checkpoint(from_roberta(checkpoint, **model.options), student)
            for n in lengths:
                shares = explained_variance(folder / MODEL, student, shard, n, sizes.tokens)
                rows += share_rows(shares, model=name, n=n, k=model.k)
            student.unlink()
    configuration = {"encoder": checkpoint["provenance"]["imported"], "tokens": sizes.tokens}
    circumstances = environment(inputs, describe_text(inputs.text))
    return Result(part, scale, rows, circumstances, configuration)


def share_rows(shares: Iterable[float], **where) -> list[Row]:
    """A row per layer."""
    return [
        Row(metric=METRIC, value=significant(share), unit="share of variance", layer=layer, **where)
        for layer, share in enumerate(shares, 1)
    ]


def run_distilled(model: EncoderModel, scale: str, inputs: Inputs) -> Result:
    """The shares along a distillation."""
    sizes, folder = SIZES[scale].distillation(model), inputs.runs.absolute() / scale / f"distillation-n{model.n}"
    transformer = write_transformer(inputs.encoder, model.n, folder)
    out, report = distill(model, sizes, inputs.text, folder)
    shares = {0: report["variance_before"]}
    shares |= {int(update) * SIZES[scale].per_update: each for update, each in report["variance_at"].items()}
    shares[report["tokens_at_most"]] = report["variance_after"]
    at = {"model": curve_label(model), "n": model.n, "k": model.k}
    rows = Rows(share_rows(report["variance_after"], **at))
    for layer in range(1, len(report["variance_after"]) + 1):
        points = [(tokens, significant(each[layer - 1])) for tokens, each in shares.items()]
        rows.append(Row(metric=f"{METRIC}_curve", model=at["model"], n=model.n, layer=layer, points=points))
    trained = Trained(out / RUN, Model(model.n, model.k))
    circumstances = environment_of([trained], inputs, describe_text(inputs.text))
    configuration = {**describe(model, sizes), "encoder": read_checkpoint(transformer)["provenance"]["imported"]}
    return Result(CURVE + curve_label(model), scale, rows, circumstances, configuration)


# Verdicts


def last_layer(results: Sequence[Result], *parts: str) -> Rows:
    """The rows of the last layer, of parts that begin with these words."""
    rows = join(result for result in results if result.part.startswith(parts))
    depth = max((row.layer for row in rows), default=0)
    return Rows(row for row in rows if row.layer == depth)


def share_of(rows: Rows, model: str, n: int) -> float:
    return float(rows.select(METRIC, model=model, n=n)[0].value)


def curve_of(rows: Rows, model: EncoderModel) -> list[float]:
    """The shares along a distillation; empty if it is not measured."""
    found = rows.find(f"{METRIC}_curve", model=curve_label(model))
    return [share for _, share in found.points] if found else []


def untrained_checks(rows: Rows) -> dict[str, list[Check]]:
    checks: dict[str, list[Check]] = {"window": [], "near": [], "E and F": []}
    for n in sorted({row.n for row in rows}):
        for k in (n // divisor for divisor in K_DIVISORS):
            with_window, without = (share_of(rows, label(k, w), n) for w in LOCAL_WINDOWS[1::-1])
            text = f"n = {n}, k = {k}: W = 4 keeps {with_window:.3f}; needs > {without:.3f} (W = 0)"
            checks["window"].append(decide(with_window > without, text))
        share = share_of(rows, label(n // 4, WIDEST), n)
        text = f"n = {n}, k = {n // 4}, W = {WIDEST} keeps {share:.3f}; needs ≥ {MIN_SHARE:g}"
        checks["near"].append(decide(share >= MIN_SHARE, text))
        for window in LOCAL_WINDOWS[1:]:
            ours, control = (share_of(rows, label(k, window), n) for k in (n // 4, 1))
            text = f"n = {n}, W = {window}: k = {n // 4} keeps {ours:.3f}; needs > {control:.3f} (k = 1)"
            checks["E and F"].append(decide(ours > control, text))
    return checks


def short_checks(rows: Rows, sizes: Sizes) -> dict[str, list[Check]]:
    checks: dict[str, list[Check]] = {"exact": [], "graded": []}
    for window in sizes.windows if rows else ():
        for n in sizes.inputs:
            graded, staggered = (share_of(rows, f"{start}, W={window}", n) for start in (GRADED, STAGGERED))
            if n <= sizes.positions // 8:
                text = f"n = {n}, W = {window}: {graded:.4f}; needs ≥ {EXACT}"
                checks["exact"].append(decide(graded >= EXACT, text))
            text = f"n = {n}, W = {window}: graded {graded:.3f}, staggered {staggered:.3f}"
            if n < sizes.positions:
                checks["graded"].append(decide(graded > staggered, f"{text}; needs graded above staggered"))
            else:
                near = graded >= staggered - MAX_LOSS
                checks["graded"].append(decide(near, f"{text}; needs a loss of at most {MAX_LOSS:g}"))
    return checks


def curve_checks(rows: Rows, sizes: Sizes) -> dict[str, list[Check]]:
    checks: dict[str, list[Check]] = {"tokens": [], "quarter": [], "distilled E and F": []}
    control = curve_of(rows, EncoderModel(128, 1, local_window=4))
    for model in sizes.distilled if rows.select(f"{METRIC}_curve") else ():
        name, shares = curve_label(model), curve_of(rows, model)
        missing = [Check(UNDECIDED, f"{name} is not measured")]
        words = ", ".join(f"{share:.3f}" for share in shares)
        rises = decide(all(a < b for a, b in pairwise(shares)), f"{name}: {words}; needs a rise at each point")
        checks["tokens"] += [rises] if shares else missing
        if 4 * (model.k or 0) == model.n and model.local_window:
            keeps = f"{name}: {shares[-1]:.3f}; needs ≥ {KEEPS:g}" if shares else ""
            checks["quarter"] += [decide(shares[-1] >= KEEPS, keeps)] if shares else missing
        if model.n == 128 and model.k != 1 and model.local_window:
            more = f"{name}: {shares[-1]:.3f}; needs > {control[-1]:.3f} (k = 1)" if shares and control else ""
            checks["distilled E and F"] += [decide(shares[-1] > control[-1], more)] if more else missing
    return checks


CLAIMS = {
    "window": "Without training, a local window keeps more of a pretrained encoder than staggered windows alone.",
    "near": "Without training, staggered k = n / 4 with a local window of 16 keeps most of a pretrained encoder.",
    "E and F": "Next to a local window, staggered E and F keep more of an encoder than one average of the text.",
    "exact": "A converted encoder keeps its features on inputs of at most k / 2 tokens.",
    "graded": "Graded windows keep more on short inputs than staggered ones, and hardly less on the longest.",
    "tokens": "The more tokens of distillation, the more variance of its Transformer a Linformer explains.",
    "quarter": "After 4 million tokens k = n / 4 with a local window of 4 explains at least 90 % of the variance.",
    "distilled E and F": "Also after distillation, E and F explain more than one average of the text.",
}


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    sizes = SIZES[results[0].scale] if results else SIZES["encoder"]
    checks = untrained_checks(last_layer(results, UNTRAINED))
    checks |= short_checks(last_layer(results, SHORT), sizes) | curve_checks(last_layer(results, CURVE), sizes)
    return [Verdict(name, claim, checks[name]) for name, claim in CLAIMS.items()]


# Tables and chart


def tables(results: Sequence[Result]) -> list[Table]:
    sizes, found = SIZES[results[0].scale], []
    untrained, short, curve = (last_layer(results, part) for part in (UNTRAINED, SHORT, CURVE))
    for n in dict.fromkeys(row.n for row in untrained):
        ks = (1, *(n // divisor for divisor in K_DIVISORS))
        cells = [[str(k), *(f"{share_of(untrained, label(k, w), n):.3f}" for w in LOCAL_WINDOWS)] for k in ks]
        found.append(Table(f"Untrained, staggered, n = {n}", ["k", *(f"W = {w}" for w in LOCAL_WINDOWS)], cells))
    if short:
        models = list(dict.fromkeys(row.model for row in short))
        cells = [[str(n), *(f"{share_of(short, model, n):.3f}" for model in models)] for n in sizes.inputs]
        found.append(Table(f"Short inputs, N = {sizes.positions}", ["tokens", *models], cells))
    if curves := curve.select(f"{METRIC}_curve"):
        columns = ["model", *(f"{tokens:,.0f}" for tokens, _ in curves[0].points)]
        cells = [[row.model, *(f"{share:.3f}" for _, share in row.points)] for row in curves]
        found.append(Table("Distilled, by tokens", columns, cells))
    return found


def chart(results: Sequence[Result]) -> list[Panel]:
    curves = last_layer(results, CURVE).select(f"{METRIC}_curve")
    by_length: dict[str, list] = {}
    for row in last_layer(results, SHORT):
        by_length.setdefault(row.model, [[]])[0].append((row.n, row.value))
    share = "share of variance, last layer"
    panels = [Panel("Distilled", "tokens", share, {row.model: [row.points] for row in curves})] if curves else []
    return panels + ([Panel("Short inputs", "tokens per input", share, by_length, log_x=True)] if by_length else [])
