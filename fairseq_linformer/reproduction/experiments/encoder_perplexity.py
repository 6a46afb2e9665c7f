"""Figure 3 (a) on a pretrained encoder: masked LM of a Transformer, and of Linformers converted from it.

Usage:

    fairseq-linformer reproduce encoder-perplexity --scale encoder --encoder NAME --data TEXT

TEXT is written by ``prepare pretraining`` with the encoder's tokenizer. A head of masked language modeling is trained
on the frozen Transformer. The Transformer with this head, and the Linformers converted from it, are then trained for
equally many updates on the same batches. A record per model. Start the command once per core.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast

from ...checkpoints.files import read_checkpoint, training_seconds
from ...checkpoints.from_transformers import MODEL
from ...evaluation.perplexity import compute_perplexity
from .. import masked_runs, scoring
from ..claim import Claim
from ..comparisons import EQUAL_UPDATES, Comparison, compare_trained, decreasing_perplexity, perplexity_at_most
from ..context_free import measure as measure_context_free
from ..encoder_models import MODELS, TRANSFORMER, EncoderModel, write_transformer
from ..experiment import Unfinished
from ..inputs import Inputs
from ..masked_head import HeadTraining
from ..masked_runs import MaskedRuns, Sizes, models_at
from ..member_experiment import MemberExperiment
from ..records import Measurement, Paper, Record, ScaleName, select_reproduced, significant
from ..report.charts import Chart
from ..report.tables import Table
from ..shared_work import describe_unfinished, work_through
from ..statistics import UNDECIDED, Check, Evaluate, Verdict, not_measured
from ..text import checksums, describe_text, find_shards
from ..training_tables import curves_charts, perplexity_table
from .figure_3 import NEARLY

NAME = masked_runs.FOLDER
TOLERANCE = {"perplexity": 0.05, "bits": 0.02}
SIZES = {
    "smoke": Sizes(32, 4, models_at(32, 4)[:2], HeadTraining(32, 4, 2, 1e-3, False), 5, 2, 1e-4, False, (1,)),
    "encoder": Sizes(512, 16, models_at(512, 16), HeadTraining(512, 400, 8, 1e-3, True), 150, 8, 5e-4, True, (1, 2, 3)),
}


def label(model: EncoderModel) -> str:
    """The name of a model in records; that of the Transformer is the one that ``comparisons`` knows."""
    return "roberta" if model.k is None else f"k={model.k}" + f", W={model.local_window}" * bool(model.local_window)


def identifier(scale: str, model: EncoderModel) -> str:
    """The identifier of a model's record."""
    return f"{NAME}-{model.name}-{scale}"


def _rule(compare: Callable[[Record, Sizes], Comparison]) -> Evaluate:
    """A comparison of the models of all records."""

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        identifiers = [identifier(scale, model) for model in SIZES[scale].models] if scale in SIZES else []
        found = [record for record in select_reproduced(records, NAME, scale) if record.identifier in identifiers]
        if not found:
            return not_measured(f"of {NAME} at scale {scale}")
        record = join_records(found, scale)
        verdict = compare_trained(record, compare(record, SIZES[scale]))
        if len({each.configuration["head_sha256"] for each in found}) > 1:
            different = Check(UNDECIDED, "the models were trained from different heads")
            verdict = replace(verdict, outcome=UNDECIDED, checks=[different, *verdict.checks])
        return replace(verdict, records=[each.identifier for each in found])

    return evaluate


def join_records(records: Sequence[Record], scale: str) -> Record:
    """One record with the models of all ``records``, in the order of the plan."""
    by_name = {record.identifier: record for record in records}
    order = [identifier(scale, model) for model in SIZES[scale].models]
    ordered = [by_name[name] for name in order if name in by_name]
    measurements = {m.key: m for record in ordered for m in record.measurements}
    return ordered[0].copy_with(
        identifier=f"{NAME}-{scale}",
        measurements=list(measurements.values()),
        curves=[curve for record in ordered for curve in record.curves],
        configuration={
            "n": SIZES[scale].n,
            "commits": {k: v for record in ordered for k, v in record.configuration["commits"].items()},
        },
    )


def _label_at(n: int, divisor: int, window: int = 0) -> str:
    """The label of the Linformer of k = n / divisor."""
    return label(EncoderModel(n, n // divisor, local_window=window))


def _is_near(record: Record, sizes: Sizes, windowed: bool) -> Comparison:
    model = _label_at(sizes.n, 4, sizes.window if windowed else 0)
    return Comparison([model], [perplexity_at_most(record, model, "roberta", NEARLY)], at_equal_updates=True)


def _larger_is_better(record: Record, sizes: Sizes) -> Comparison:
    models = [_label_at(sizes.n, divisor) for divisor in (8, 4, 2)]
    return Comparison(models, decreasing_perplexity(record, models), at_equal_updates=True)


def _projections_help(record: Record, sizes: Sizes) -> Comparison:
    model, control = _label_at(sizes.n, 4, sizes.window), label(EncoderModel(sizes.n, 1, local_window=sizes.window))
    return Comparison([model, control], [perplexity_at_most(record, model, control)], at_equal_updates=True)


_ENDING = (
    "Nothing is decided between models of different heads. (Written before a Linformer was measured; the number of "
    "updates and the learning rate were chosen on the Transformer.)"
)
_N = SIZES["encoder"].n
CLAIMS = tuple(
    Claim(f"{NAME}-{part}", f"{where}; n = 512", statement, f"{condition} {EQUAL_UPDATES} {_ENDING}", _rule(compare))
    for part, where, statement, condition, compare in (
        (
            "k",
            "Figure 3 (a), section 5.1, on a pretrained encoder",
            "Converted from an encoder, a Linformer of a larger k has a lower perplexity.",
            f"Holds if k = {_N // 2} has at most the perplexity of k = {_N // 4}, and that of k = {_N // 8}; does not "
            "hold if one has more.",
            _larger_is_better,
        ),
        (
            "quarter",
            "Figure 3 (a), section 5.1, on a pretrained encoder",
            "Converted from an encoder, k = n / 4 is nearly on par with it.",
            f"Holds if k = {_N // 4} has at most {NEARLY:g} times the perplexity of the Transformer after as many "
            "updates; does not hold if it has more.",
            partial(_is_near, windowed=False),
        ),
        (
            "window",
            "this project: convert from-transformers --local-window",
            "Converted from an encoder, k = n / 4 with a local window of 16 is nearly on par with it.",
            f"Holds if k = {_N // 4} with W = 16 has at most {NEARLY:g} times the perplexity of the Transformer after "
            "as many updates; does not hold if it has more.",
            partial(_is_near, windowed=True),
        ),
        (
            "projections",
            "this project: convert from-transformers --local-window",
            "Converted from an encoder, next to a local window, E and F lower the perplexity.",
            f"Holds if k = {_N // 4} with W = 16 has at most the perplexity of k = 1 with that window; does not hold "
            "if it has more.",
            _projections_help,
        ),
    )
)


class EncoderPerplexity(MemberExperiment[EncoderModel]):
    """Trains the head, then each model with each seed."""

    name, title, claims, scales = NAME, "Figure 3 (a) on an encoder", CLAIMS, tuple(SIZES)
    reads = ("data", "encoder")

    def cost(self, scale: str) -> str:
        sizes = SIZES[scale]
        tokens = sizes.updates * sizes.batch_size * sizes.n
        return f"{len(sizes.models) * len(sizes.seeds)} runs of {tokens:,} tokens"

    def members(self, scale: str) -> Sequence[EncoderModel]:
        return SIZES[scale].models

    def identifier(self, scale: str, member: EncoderModel) -> str:
        return identifier(scale, member)

    def configuration(self, scale: str, member: EncoderModel, inputs: Inputs) -> dict[str, Any]:
        sizes = asdict(SIZES[scale])
        del sizes["models"]
        return {"sizes": sizes, "model": member.describe(), "text": checksums(inputs.data)}

    def measure_members(
        self, scale: str, inputs: Inputs, command: str, members: Sequence[EncoderModel]
    ) -> list[Record]:
        runs, until = _runs(scale, inputs), inputs.deadline()
        write_transformer(str(inputs.encoder), runs.sizes.n, inputs.folder / scale)
        head, *units = runs.units(members)
        if not work_through([head], runs.folder, until, wait=True):
            runs.check_trained(members)
            work_through(units, runs.folder, until)
        records = [
            _record(scale, model, inputs, command, runs, self.configuration(scale, model, inputs))
            for model in members
            if all(runs.are_finished(model))
        ]
        if left := [unit.name for unit in (head, *units) if not unit.is_done()]:
            raise Unfinished(f"{NAME}: {describe_unfinished(left, [head, *units])}", records)
        return records

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [table for record in _joined_by_scale(records) for table in perplexity_table(record)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [
            chart
            for record in _joined_by_scale(records)
            for chart in curves_charts(record, f"{self.title}, {record.scale} scale")
        ]


def _joined_by_scale(records: Sequence[Record]) -> list[Record]:
    return [
        join_records([r for r in records if r.scale == scale], scale)
        for scale in dict.fromkeys(r.scale for r in records)
    ]


def _runs(scale: str, inputs: Inputs) -> MaskedRuns:
    assert inputs.data is not None  # ``check`` requires it
    folder = inputs.folder / scale
    return MaskedRuns(SIZES[scale], folder / MODELS / TRANSFORMER / MODEL, inputs.data, folder)


def _record(
    scale: str, model: EncoderModel, inputs: Inputs, command: str, masked: MaskedRuns, configuration: dict[str, Any]
) -> Record:
    sizes, start, text = masked.sizes, masked.write_start(model), find_shards(inputs.data)[0]
    runs = masked.runs(model)
    scores = [scoring.measure_perplexity(run, inputs.data, "cpu") for run in runs]
    at: dict[str, Any] = {"model": label(model), "n": sizes.n, "k": model.k}
    measurements = [*scoring.perplexity_measurements(scores, sizes.seeds, **at)]
    before = significant(compute_perplexity(start, text).bits)
    measurements.append(Measurement(metric="bits_before", unit="bits", value=before, **at))
    level = measure_context_free(text, sizes.n).masked_bits
    measurements.append(Measurement(metric="context_free_bits", unit="bits", value=level, n=sizes.n))
    found = scoring.provenance([run.folder for run in runs])
    configuration = {
        **configuration,
        "n": sizes.n,
        "masks": scoring.MASKS,
        "head_sha256": masked.head_sha256,
        "encoder": read_checkpoint(masked.head)["provenance"]["imported"],
        "commits": {label(model): found["commit"]},
    }
    return Record(
        identifier=identifier(scale, model),
        experiment=NAME,
        made_by="reproduce",
        claim=f"Perplexity of {label(model)} on an encoder whose head of masked LM was trained",
        paper=Paper(where="Figure 3 (a), section 5.1; trained from scratch at base size"),
        measurements=measurements,
        curves=[scoring.bits_curve(run, label(model), seed) for seed, run in zip(sizes.seeds, runs)],
        scale=cast(ScaleName, scale),
        data=describe_text(inputs.data),
        command=command,
        configuration=configuration,
        tolerance=TOLERANCE,
        seconds=round(sum(training_seconds(run.last_checkpoint, start) for run in runs), 1),
        **found,
    )


EXPERIMENTS = (EncoderPerplexity(),)
