"""Table 2 on an encoder that has learned something: a pretrained Transformer, and Linformers distilled from it.

Usage:

    fairseq-linformer reproduce encoder-tasks --scale encoder --encoder NAME --data TEXT --tasks TASKS

TEXT and TASKS are prepared with the encoder's tokenizer, see ``docs/reproduction.md``. ``encoder_runs.py`` trains.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean

from ...linearization.options import SHORT_SEQ_PROB
from ..claim import Claim
from ..encoder_models import GRADED, STAGGERED, Distillation, EncoderModel
from ..encoder_runs import Member, Sizes, members
from ..encoder_tasks_experiment import EncoderTasks
from ..records import Record, select_reproduced
from ..report.tables import MISSING, Table
from ..rules import rule_on_all
from ..statistics import (
    MIN_SEEDS,
    UNDECIDED,
    Check,
    Estimate,
    Evaluate,
    compare,
    decide,
    difference_of_extremes,
    ratio_of_extremes,
)

NAME = "encoder-tasks"
SHARINGS = ("headwise", "key-value", "layerwise")
WINDOW = 16
"""W of the models with a local window."""
HALF_KEEPS, QUARTER_KEEPS, WINDOW_KEEPS = 0.99, 0.98, 0.99
"""Bounds on the share of the encoder's mean accuracy."""
SST_2 = 89.0
"""Bound on the accuracy on SST-2, in percent."""


_ENCODER, _QUARTER = EncoderModel(512), EncoderModel(512, 128, local_window=WINDOW)
_CONTROL = EncoderModel(512, 1, local_window=WINDOW)
_STAGGERED = tuple(EncoderModel(512, k, "headwise", WINDOW, STAGGERED) for k in (128, 1))
_SHARED = tuple(EncoderModel(512, k, sharing) for sharing in SHARINGS for k in (256, 128))
_SMALL = EncoderModel(32, 8, local_window=4)
SIZES: dict[str, Sizes] = {
    "smoke": Sizes(
        32,
        (EncoderModel(32), _SMALL, EncoderModel(32, 1, local_window=4)),
        (_SMALL,),
        Distillation(2, 2, 2e-4, False, SHORT_SEQ_PROB),
        {"imdb": (1e-3, 8, 1)},
        (1,),
    ),
    "encoder": Sizes(
        512,
        (_ENCODER, _QUARTER, _CONTROL, *_SHARED, *_STAGGERED),
        (_ENCODER, _QUARTER),
        Distillation(1000, 4, 2e-4, True, SHORT_SEQ_PROB),
        {"sst-2": (1e-4, 32, 1), "imdb": (1e-4, 16, 1), "qnli": (1e-4, 32, 1), "qqp": (1e-4, 32, 1)},
        (1, 2, 3),
        dict.fromkeys((_ENCODER, *_STAGGERED), Distillation(1000, 4, 4e-4, True)),
    ),
}


class EncoderAccuracies:
    """Accuracies in percent, by task and model."""

    def __init__(self, records: Sequence[Record], scale: str):
        self.records, self.sizes = select_reproduced(records, NAME, scale), SIZES[scale]
        self.by_name = {r.identifier.removeprefix(f"{NAME}-").removesuffix(f"-{scale}"): r for r in self.records}

    def accuracy(self, task: str, model: EncoderModel) -> Estimate | Check:
        record = self.by_name.get(Member(task, model, self.sizes.n).name)
        if record is None:
            return Check(UNDECIDED, f"{task}: {model.label} is not measured")
        m = record.find("accuracy", split="valid")
        if m is None or m.repetitions < MIN_SEEDS:
            seeds = 0 if m is None else m.repetitions
            return Check(UNDECIDED, f"{task}: {model.label} has {seeds} seeds; needs {MIN_SEEDS}")
        return Estimate(m.value, m.low, m.high, f"{task}: {model.label}")

    def average(self, model: EncoderModel) -> Estimate | list[Check]:
        """The mean over the tasks, of the medians, of the lowest and of the highest; or what is missing."""
        found = [self.accuracy(task, model) for task in self.sizes.recipes]
        if missing := [each for each in found if isinstance(each, Check)]:
            return missing
        model_records = [self.by_name[Member(task, model, self.sizes.n).name] for task in self.sizes.recipes]
        if len({record.configuration["encoder"]["sha256"] for record in self.records}) > 1:
            return [Check(UNDECIDED, "the records are of different encoders")]
        weights = {record.configuration["model"]["pretraining"]["sha256"] for record in model_records}
        if model.k is not None and len(weights) > 1:
            return [Check(UNDECIDED, f"{model.label} was distilled more than once")]
        value, low, high = (mean(getattr(each, name) for each in found) for name in ("value", "low", "high"))
        return Estimate(value, low, high, model.label)


def accuracy_kept(found: EncoderAccuracies, model: EncoderModel, bound: float) -> list[Check]:
    """The model's mean accuracy over the encoder's, by medians. The interval divides the mean of the lowest accuracies
    by the mean of the highest, and vice versa."""

    def check(ours: Estimate, theirs: Estimate) -> Check:
        share = ratio_of_extremes(ours, theirs, f"{model.label} / {theirs.text}")
        text = f"{share.text}: {share.value:.4f} [{share.low:.4f}, {share.high:.4f}]; needs ≥ {bound:g}"
        return decide(share.value >= bound, text)

    return compare(found.average(model), found.average(found.sizes.models[0]), check)


def half_keeps(found: EncoderAccuracies) -> list[Check]:
    models = [m for m in found.sizes.models if m.k == found.sizes.n // 2]
    return [check for model in models for check in accuracy_kept(found, model, HALF_KEEPS)]


def quarter_keeps(found: EncoderAccuracies) -> list[Check]:
    models = [m for m in found.sizes.models if m.k == found.sizes.n // 4 and not m.local_window]
    return [check for model in models for check in accuracy_kept(found, model, QUARTER_KEEPS)]


def _windowed_quarter(found: EncoderAccuracies) -> EncoderModel:
    """The graded model of k = n / 4 with the local window."""
    sizes = found.sizes
    return next(m for m in sizes.models if m.k == sizes.n // 4 and m.local_window and m.start == GRADED)


def window_keeps(found: EncoderAccuracies) -> list[Check]:
    quarter = _windowed_quarter(found)
    accuracy = found.accuracy("sst-2", quarter)
    if isinstance(accuracy, Check):
        return [*accuracy_kept(found, quarter, WINDOW_KEEPS), accuracy]
    text = f"{accuracy.text}: {accuracy.value:.1f} [{accuracy.low:.1f}, {accuracy.high:.1f}] %; needs ≥ {SST_2:g}"
    return [*accuracy_kept(found, quarter, WINDOW_KEEPS), decide(accuracy.value >= SST_2, text)]


def _every_run_above(found: EncoderAccuracies, task: str, other: EncoderModel) -> list[Check]:
    """On a task, every run of graded k = n / 4 with the local window is above every run of another model."""

    def check(ours: Estimate, theirs: Estimate) -> Check:
        return difference_of_extremes(ours, theirs, f"{ours.text} minus {theirs.text}").more_than(0.0)

    return compare(found.accuracy(task, _windowed_quarter(found)), found.accuracy(task, other), check)


def projections_help(found: EncoderAccuracies) -> list[Check]:
    """IMDB has the longest inputs."""
    return _every_run_above(found, "imdb", next(m for m in found.sizes.models if m.k == 1 and m.start == GRADED))


def grading_helps(found: EncoderAccuracies) -> list[Check]:
    """QNLI has short inputs, whose halves must be compared."""
    quarter = _windowed_quarter(found)
    other = replace(quarter, start=STAGGERED)
    if other not in found.sizes.models:
        return [Check(UNDECIDED, f"{other.label} is not in the plan")]
    return _every_run_above(found, "qnli", other)


def accuracy_rule(checks_of: Callable[[EncoderAccuracies], list[Check]]) -> Evaluate:
    """A rule on the models at the n of their distillation, not on those resized to longer inputs."""

    def checks(records: Sequence[Record], scale: str) -> list[Check]:
        return checks_of(EncoderAccuracies(records, scale))

    return rule_on_all(NAME, SIZES, checks, _has_distilled_n, needs_all=True)


def _has_distilled_n(record: Record) -> bool:
    return bool(record.configuration["model"]["max_positions"] == record.configuration["distilled"]["n"])


_MEASURED = (
    f" Medians over {MIN_SEEDS} seeds of finetuning, mean over SST-2, IMDB, QNLI and QQP, on rows that no choice was "
    "made on; each model was distilled once. Not enough evidence where a model, task or seed is missing. "
)


def _claim(identifier: str, statement: str, rule: str, checks_of: Callable[[EncoderAccuracies], list[Check]]) -> Claim:
    where = "this project: linearize, then finetune; Table 2's models"
    recipe = "E and F are graded, and half of the batches of distillation are cut into shorter blocks."
    rule = f"{rule} {recipe}{_MEASURED}(Written before the first measurement of such a model.)"
    return Claim(f"{NAME}-{identifier}", where, statement, rule, accuracy_rule(checks_of))


CLAIMS = (
    _claim(
        "half",
        "Distilled, a Linformer of k = n / 2 is as accurate as its Transformer.",
        f"Holds if with each sharing it keeps at least {HALF_KEEPS:.0%} of the encoder's accuracy; otherwise does not "
        "hold.",
        half_keeps,
    ),
    _claim(
        "quarter",
        "Distilled, a Linformer of k = n / 4 is almost as accurate as its Transformer.",
        f"Holds if with each sharing it keeps at least {QUARTER_KEEPS:.0%} of the encoder's accuracy; otherwise does "
        "not hold.",
        quarter_keeps,
    ),
    _claim(
        "window",
        "Distilled, a Linformer of k = n / 4 with a local window is as accurate as its Transformer.",
        f"Holds if with W = {WINDOW} it keeps at least {WINDOW_KEEPS:.0%} of the encoder's accuracy, and reaches "
        f"{SST_2:g} % on SST-2; otherwise does not hold.",
        window_keeps,
    ),
    _claim(
        "projections",
        "Next to a local window, E and F raise the accuracy on long inputs.",
        f"On IMDB alone: holds if every run of k = n / 4 with W = {WINDOW} is above every run of k = 1 with the same "
        "window; does not hold if none is.",
        projections_help,
    ),
    Claim(
        f"{NAME}-graded",
        "this project: --projection-init graded",
        "Distilled on blocks of several lengths at 2e-4, graded windows keep more accuracy on short inputs than "
        "staggered ones distilled on whole blocks at 4e-4.",
        f"On QNLI: holds if every run of graded k = n / 4 with W = {WINDOW} is above every run of staggered k = n / 4 "
        "with the same window; does not hold if none is. (Written when staggered accuracies were known.)",
        accuracy_rule(grading_helps),
    ),
)


class EncoderTable(EncoderTasks):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """A row per model, with the paper's cells; then the longer inputs."""
        return [table for scale in dict.fromkeys(r.scale for r in records) for table in _tables(records, scale)]


def _tables(records: Sequence[Record], scale: str) -> list[Table]:
    found, sizes = EncoderAccuracies(records, scale), SIZES[scale]
    rows = []
    for model in sizes.models:
        cells = [_cell(found, Member(task, model, sizes.n)) for task in sizes.recipes]
        average, full = found.average(model), found.average(sizes.models[0])
        whole = [MISSING, ""]
        if isinstance(average, Estimate):
            whole = [f"{average.value:.2f}", ""]
            if isinstance(full, Estimate):
                whole[1] = f"{100 * average.value / full.value:.1f} %"
        rows.append([model.label, *cells, *whole])
    caption = (
        f"{NAME}-{scale}: accuracy in percent, median over finetuning seeds (lowest to highest); in brackets the "
        "paper's, of base size; kept: share of the encoder's mean"
    )
    tables = [Table(["model", *sizes.recipes, "mean", "kept"], rows, caption)]
    longer = [member for member in members(sizes) if member.is_resized]
    if any(member.name in found.by_name for member in longer):
        rows = []
        for member in longer:
            short = Member(member.task, member.model, sizes.n)
            rows.append([member.model.label, member.task, _cell(found, short), _cell(found, member)])
        heads = ["model", "task", f"n = {sizes.n}", f"n = {2 * sizes.n}, resized"]
        tables.append(Table(heads, rows, f"{NAME}-{scale}: longer inputs, accuracy in percent"))
    return tables


def _cell(found: EncoderAccuracies, member: Member) -> str:
    record = found.by_name.get(member.name)
    m = record.find("accuracy", split="valid") if record else None
    if record is None or m is None:
        return MISSING
    printed = record.paper.value
    return f"{m.value:.1f} ({m.low:.1f} to {m.high:.1f})" + (f" [{printed}]" if printed is not None else "")


EXPERIMENTS = (EncoderTable(NAME, "Table 2 on a distilled encoder", CLAIMS, SIZES),)
