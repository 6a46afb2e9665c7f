"""How much of a pretrained encoder a Linformer keeps, by tokens of distillation.

Usage:

    fairseq-linformer reproduce distillation --scale encoder --encoder NAME --data TEXT

TEXT is written by ``prepare pretraining`` with the encoder's tokenizer. A record per model, with the explained
variance of ``linearization/explained_variance.py`` along a single run, whose learning rate decays to zero at its end.
Start the command once per core.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from ...checkpoints.files import read_checkpoint, training_seconds
from ...launching.checkpoints import LAST
from ...launching.run_folder import CHECKPOINTS
from ...linearization.options import SHORT_SEQ_PROB
from .. import scoring
from ..claim import Claim
from ..encoder_models import Distillation, DistilledModel, EncoderModel, plan, write_transformer
from ..experiment import Unfinished
from ..inputs import Inputs
from ..member_experiment import MemberExperiment
from ..records import Curve, Measurement, Paper, Record, ScaleName, significant
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..rules import rule_on_all
from ..shared_work import describe_unfinished, work_through
from ..statistics import UNDECIDED, Check, decide
from ..text import checksums, describe_text

NAME, METRIC, UNIT = "distillation", "surviving_variance", "share of variance"
TOLERANCE = {UNIT: 0.01}
KEEPS = 0.9
"""Share of the last layer that k = n / 4 with the local window needs in the end."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        models: the Linformers; each is distilled at its own n.
        tokens: in total; the share is also measured at a quarter and at half.
        tokens_per_update: tokens of one update.
        lr: peak learning rate.
        amp: train in mixed precision.
    """

    models: tuple[EncoderModel, ...]
    tokens: int
    tokens_per_update: int
    lr: float
    amp: bool

    def distillation(self, model: EncoderModel) -> Distillation:
        updates = self.tokens // self.tokens_per_update
        batch_size = self.tokens_per_update // model.n
        return Distillation(updates, batch_size, self.lr, self.amp, SHORT_SEQ_PROB, (updates // 4, updates // 2))


def _at_one_length(n: int, window: int) -> list[EncoderModel]:
    """k = n / 8, n / 4 and n / 2 without and with the window, and the control."""
    models = [EncoderModel(n, n // divisor, local_window=w) for w in (window, 0) for divisor in (4, 2, 8)]
    return [*models, EncoderModel(n, 1, local_window=window)]


SIZES: dict[str, Sizes] = {
    "smoke": Sizes(tuple(EncoderModel(32, k, local_window=4) for k in (8, 1)), 512, 64, 2e-4, False),
    "encoder": Sizes((*_at_one_length(128, 4), EncoderModel(512, 128, local_window=4)), 2000 * 2048, 2048, 2e-4, True),
}


def label(model: EncoderModel) -> str:
    return f"n={model.n}, k={model.k}, W={model.local_window}"


def identifier(scale: str, model: EncoderModel) -> str:
    return f"{NAME}-n{model.n}-k{model.k}-w{model.local_window}-{scale}"


def points(records: Iterable[Record], model: EncoderModel, scale: str) -> list[tuple[float, float]] | None:
    """(tokens, share of the last layer) of a model; None if it is not measured."""
    record = next((r for r in records if r.identifier == identifier(scale, model)), None)
    return None if record is None else max(record.curves, key=lambda curve: curve.layer or 0).points


def _missing(model: EncoderModel) -> Check:
    return Check(UNDECIDED, f"{label(model)} is not measured")


def more_is_better(records: Sequence[Record], scale: str) -> list[Check]:
    """For each model the share rises from point to point."""
    checks = []
    for model in SIZES[scale].models:
        line = points(records, model, scale)
        if line is None:
            checks.append(_missing(model))
            continue
        shares = [share for _, share in line]
        text = f"{label(model)}: {', '.join(f'{share:.3f}' for share in shares)}; needs a rise at each point"
        checks.append(decide(all(a < b for a, b in pairwise(shares)), text))
    return checks


def _last(records: Sequence[Record], model: EncoderModel, scale: str) -> float | Check:
    line = points(records, model, scale)
    return _missing(model) if line is None else line[-1][1]


def quarter_keeps(records: Sequence[Record], scale: str) -> list[Check]:
    """k = n / 4 with the local window keeps ``KEEPS`` at each n."""
    checks = []
    for model in SIZES[scale].models:
        if 4 * (model.k or 0) != model.n or not model.local_window:
            continue
        share = _last(records, model, scale)
        if isinstance(share, float):
            text = f"{label(model)}: {share:.3f}; needs ≥ {KEEPS:g}"
            share = decide(share >= KEEPS, text)
        checks.append(share)
    return checks


def projections_help(records: Sequence[Record], scale: str) -> list[Check]:
    """Models with the local window against k = 1 at the same n."""
    models = [model for model in SIZES[scale].models if model.local_window]
    (control,) = (model for model in models if model.k == 1)
    checks = []
    for model in models:
        if model.n == control.n and model != control:
            pair = [_last(records, each, scale) for each in (model, control)]
            if missing := [each for each in pair if isinstance(each, Check)]:
                checks += missing
                continue
            ours, other = cast(list[float], pair)
            text = f"{label(model)}: {ours:.3f}; needs > {other:.3f} (k = 1)"
            checks.append(decide(ours > other, text))
    return list(dict.fromkeys(checks))


_SHARE = (
    "Share of the variance of the last layer's features on held-out text, one run per model. Not enough evidence where "
    "a model is missing. (Runs of 0.8 M tokens with 0.835 and 0.899 at n = 128, k = 32 were known.)"
)
CLAIMS = tuple(
    Claim(
        f"{NAME}-{part}",
        "this project: linearize",
        statement,
        f"{condition} {_SHARE}",
        rule_on_all(NAME, SIZES, checks, needs_all=True),
    )
    for part, statement, condition, checks in (
        (
            "tokens",
            "The more tokens of distillation, the more variance of its Transformer a Linformer explains.",
            "Holds if the share of each model rises from 0 to 1, 2 and 4 million tokens; otherwise does not hold.",
            more_is_better,
        ),
        (
            "quarter",
            "After 4 million tokens k = n / 4 with a local window of 4 explains at least 90 % of the variance.",
            f"Holds if it keeps at least {KEEPS:g} at n = 128 and at n = 512; otherwise does not hold.",
            quarter_keeps,
        ),
        (
            "projections",
            "Next to a local window, E and F explain more than one average of the text, also after distillation.",
            "Holds if at n = 128 each k with W = 4 keeps more than k = 1 with that window; otherwise does not hold.",
            projections_help,
        ),
    )
)


class DistillationExperiment(MemberExperiment[EncoderModel]):
    """Distills each model, and measures its share along the run."""

    name, title, claims, scales = NAME, "Distillation of an encoder", CLAIMS, tuple(SIZES)
    reads = ("data", "encoder")

    def cost(self, scale: str) -> str:
        sizes = SIZES[scale]
        return f"{len(sizes.models)} models, {sizes.tokens:,} tokens of distillation each"

    def members(self, scale: str) -> Sequence[EncoderModel]:
        return SIZES[scale].models

    def identifier(self, scale: str, member: EncoderModel) -> str:
        return identifier(scale, member)

    def configuration(self, scale: str, member: EncoderModel, inputs: Inputs) -> dict[str, Any]:
        return {
            "model": member.describe(),
            "distillation": plan(SIZES[scale].distillation(member), checksums(inputs.data)),
        }

    def _distilled(self, scale: str, inputs: Inputs, models: Sequence[EncoderModel]) -> list[DistilledModel]:
        sizes = SIZES[scale]
        return [
            DistilledModel(model, sizes.distillation(model), inputs.data, _folder(scale, inputs, model.n))
            for model in models
        ]

    def measure_members(
        self, scale: str, inputs: Inputs, command: str, members: Sequence[EncoderModel]
    ) -> list[Record]:
        folder = inputs.folder / scale
        written = {
            n: write_transformer(str(inputs.encoder), n, _folder(scale, inputs, n)) for n in {m.n for m in members}
        }
        distilled = self._distilled(scale, inputs, members)
        units = [replace(each.unit, name=f"distill {label(each.model)}") for each in distilled]
        left = work_through(units, folder / NAME, inputs.deadline())
        imported = read_checkpoint(next(iter(written.values())))["provenance"]["imported"]
        records = [
            _record(each, scale, inputs, command, self.configuration(scale, each.model, inputs), imported)
            for each in distilled
            if each.unit.is_done()
        ]
        if left:
            raise Unfinished(f"{NAME}: {describe_unfinished(left, units)}", records)
        return records

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Shares of the last layer by tokens."""
        return [_table(records, scale) for scale in dict.fromkeys(record.scale for record in records)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        charts = []
        for scale in dict.fromkeys(record.scale for record in records):
            models = SIZES[scale].models
            lines = [(model, points(records, model, scale)) for model in models]
            series = [Series(label(model), [line]) for model, line in lines if line]
            title = f"{self.title}, {scale} scale"
            if series:
                charts.append(Chart(f"{NAME}-{scale}", title, "tokens", "share of variance, last layer", series))
        return charts


def _folder(scale: str, inputs: Inputs, n: int) -> Path:
    return inputs.folder / scale / NAME / f"n{n}"


def _record(
    distilled: DistilledModel,
    scale: str,
    inputs: Inputs,
    command: str,
    configuration: dict[str, Any],
    imported: dict[str, Any],
) -> Record:
    model, report, sizes = distilled.model, distilled.report(), SIZES[scale]
    tokens = sizes.tokens_per_update
    shares = {0: report["variance_before"]}
    shares |= {int(update) * tokens: value for update, value in report["variance_at"].items()}
    shares[report["tokens_at_most"]] = report["variance_after"]
    at: dict[str, Any] = {"model": label(model), "n": model.n, "k": model.k}
    lines = {
        layer: [(float(count), significant(share[layer - 1])) for count, share in shares.items()]
        for layer in range(1, len(report["variance_after"]) + 1)
    }
    return Record(
        identifier=identifier(scale, model),
        experiment=NAME,
        made_by="reproduce",
        claim=f"Share of an encoder's variance that a Linformer keeps after distillation, {label(model)}",
        paper=Paper(where="not in the paper, which names distillation as complementary (section 2)"),
        measurements=[
            Measurement(metric=METRIC, value=line[-1][1], unit=UNIT, layer=layer, **at) for layer, line in lines.items()
        ],
        curves=[
            Curve(metric=METRIC, points=line, model=label(model), n=model.n, layer=layer)
            for layer, line in lines.items()
        ],
        scale=cast(ScaleName, scale),
        data=describe_text(inputs.data),
        command=command,
        configuration={**configuration, "encoder": imported},
        tolerance=TOLERANCE,
        seconds=round(training_seconds(distilled.run / CHECKPOINTS / LAST), 1),
        **scoring.provenance([distilled.run]),
    )


def _table(records: Sequence[Record], scale: str) -> Table:
    sizes, rows = SIZES[scale], []
    updates = sizes.tokens // sizes.tokens_per_update
    counts = [update * sizes.tokens_per_update for update in (0, updates // 4, updates // 2, updates)]
    for model in sorted(sizes.models, key=lambda model: (model.n, model.k, model.local_window)):
        shares = dict(points(records, model, scale) or [])
        cells = [f"{shares[count]:.3f}" if count in shares else MISSING for count in counts]
        rows.append([f"{model.n:,}", str(model.k), str(model.local_window), *cells])
    heads = ["n", "k", "W", *(f"{count:,} tokens" for count in counts)]
    return Table(heads, rows, f"{NAME}-{scale}: share of the last layer's variance, by tokens of distillation")


EXPERIMENTS = (DistillationExperiment(),)
