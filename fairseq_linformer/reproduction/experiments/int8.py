"""A finetuned Linformer in PyTorch, as an ONNX graph and as an int8 graph: accuracy, logits and file size.

Usage:

    fairseq-linformer reproduce int8 --scale encoder --encoder NAME --data TEXT --tasks TASKS

The model is the staggered one of ``encoder-tasks`` with k = n / 4 and a local window; missing finetunings are run. Rows
are batched as by ``fairseq-linformer evaluate``.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor

from ...checkpoints.files import ONNX_GRAPH
from ...checkpoints.onnx_export import check_packages, to_onnx
from ...corpus.tokenizer_files import DICTIONARY
from ...evaluation.classifier import FairseqClassifier
from ...evaluation.encoded_rows import read_prepared_rows
from ...evaluation.onnx_classifier import OnnxClassifier
from ...evaluation.predict import Throughput, predict
from ...finetuning import single_run
from ...machine import current_commit
from ..claim import Claim
from ..encoder_models import STAGGERED
from ..encoder_runs import EncoderRuns, Member
from ..encoder_tasks_experiment import EncoderTasks
from ..inputs import Inputs
from ..records import Measurement, Paper, Record, circumstances, summarize_repetitions
from ..report.tables import Table
from ..rules import rule_on_all
from ..statistics import MIN_SEEDS, UNDECIDED, Check, Evaluate, decide
from . import encoder_tasks

NAME = "int8"
TASK_NAMES = ("sst-2", "imdb")
PYTORCH, ONNX, INT8 = "PyTorch", "ONNX", "int8"
ACCURACY, LOST, LOGITS, SIZE = "accuracy", "accuracy_lost", "logit_difference", "size_ratio"
MAX_LOST, MAX_DIFFERENCE, MAX_SIZE = 0.5, 1e-4, 0.27
"""Limits on the lost points of accuracy, the difference of a logit, and bytes of the int8 file over those of fp32."""


def _check_limit(record: Record, metric: str, limit: float, unit: str) -> Check:
    """The median over the seeds, or the largest difference of a logit of any seed, is at most the limit."""
    m = record.find(metric, model=ONNX if metric == LOGITS else INT8)
    if m is None or m.repetitions < MIN_SEEDS:
        return Check(UNDECIDED, f"{record.identifier} has {m.repetitions if m else 0} seeds; needs {MIN_SEEDS}")
    value = m.high if metric == LOGITS else m.value
    text = f"{m.task}: {value:.3g}{unit} [{m.low:.3g}, {m.high:.3g}]; needs ≤ {limit:g}{unit}"
    return decide(value <= limit, text)


def _rule(metric: str, limit: float, unit: str = "") -> Evaluate:
    """Every task is measured, and within the limit."""

    def checks(records: Sequence[Record], scale: str) -> list[Check]:
        measured = {m.task for record in records for m in record.select(metric)}
        tasks = [member.task for member in _members(scale)]
        missing = [Check(UNDECIDED, f"{task} is not measured") for task in tasks if task not in measured]
        return [*(_check_limit(record, metric, limit, unit) for record in records), *missing]

    return rule_on_all(NAME, encoder_tasks.SIZES, checks)


_MODELS = (
    f" Linformer of k = n / 4 with a local window, finetuned on SST-2 and IMDB with {MIN_SEEDS} seeds, on rows that no "
    "choice was made on. "
)
_ENDING = "Otherwise does not hold. (Written before the first measurement of these models"
CLAIMS = (
    Claim(
        NAME,
        "this project: convert to-onnx --int8",
        "Storing weights in 8 bits costs a finetuned Linformer at most half a point of accuracy.",
        f"Accuracy in PyTorch minus that of the int8 graph.{_MODELS}Holds if for both tasks the median over the seeds "
        f"is at most {MAX_LOST:g} points. {_ENDING}.)",
        _rule(LOST, MAX_LOST, " points"),
    ),
    Claim(
        f"{NAME}-logits",
        "this project: convert to-onnx",
        "The ONNX graph computes the logits of PyTorch.",
        f"Largest difference of a logit over all rows.{_MODELS}Holds if for both tasks and every seed it is at most "
        f"{MAX_DIFFERENCE:g}. {_ENDING}.)",
        _rule(LOGITS, MAX_DIFFERENCE),
    ),
    Claim(
        f"{NAME}-size",
        "this project: convert to-onnx --int8",
        "The int8 file is about a quarter as large as that in single precision.",
        f"Bytes of the int8 graph over those of the ONNX graph in single precision.{_MODELS}Holds if for both tasks "
        f"the median is at most {MAX_SIZE:g}: 8 of 32 bits, scales, and what stays in single precision. {_ENDING}; "
        "the ratio of another model, 0.267, was known.)",
        _rule(SIZE, MAX_SIZE),
    ),
)


def _members(scale: str) -> list[Member]:
    sizes = encoder_tasks.SIZES[scale]
    quarters = [model for model in sizes.models if model.local_window and model.k == sizes.n // 4]
    # The existing records are of the staggered model.
    quarter = next((model for model in quarters if model.start == STAGGERED), quarters[0])
    return [Member(task, quarter, sizes.n) for task in TASK_NAMES if task in sizes.recipes]


class Int8(EncoderTasks):
    """Exports of finetuned Linformers, on the rows of their tasks; a record per task."""

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        check_packages(self.name)

    def members(self, scale: str) -> list[Member]:
        return _members(scale)

    def record(self, scale: str, member: Member, inputs: Inputs, command: str, runs: EncoderRuns) -> Record:
        base = super().record(scale, member, inputs, command, runs)
        trainings = runs.trainings(member)
        found = [
            _measure_exports(training.folder / single_run.RESULT, Path(training.cfg.task.data))
            for training in trainings
        ]
        at: dict[str, Any] = {"task": member.task, "n": member.n, "k": member.model.k, "split": "valid"}
        measurements = [
            Measurement(metric=metric, model=model, unit=unit, **summarize_repetitions(values), **at)
            for (metric, model, unit) in found[0]
            for values in [[each[metric, model, unit] for each in found]]
        ]
        measurements += [m for m in base.measurements if m.metric == "rows"]
        return base.copy_with(
            claim=f"{member.task}: {member.model.name}, finetuned, in PyTorch, as an ONNX graph and as an int8 graph",
            paper=Paper(where="not in the paper"),
            measurements=measurements,
            commit="; ".join(dict.fromkeys([*base.commit.split("; "), current_commit()])),
            tolerance={**(base.tolerance or {}), "ratio of bytes": 0.01},
            **circumstances(base.data, command, scale),
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """A row per task."""
        return [
            _accuracy_table([r for r in records if r.scale == scale])
            for scale in dict.fromkeys(r.scale for r in records)
        ]


def _measure_exports(result: Path, data: Path) -> dict[tuple[str, str, str], float]:
    """Numbers of one finetuning, by metric, model and unit.

    Args:
        result: of the finetuning.
        data: its task.
    """
    checkpoint = result.parent / single_run.read_result(result)["checkpoint"]
    classifier = FairseqClassifier(checkpoint, dictionary=data / "input0" / DICTIONARY)
    rows = list(read_prepared_rows(classifier, data, "valid")[1])
    targets = torch.tensor([cast(float, row.target) for row in rows])

    def logits_of(classifier) -> Tensor:
        return torch.stack([logits for _, logits in predict(classifier, rows, Throughput(), total=len(rows))])

    logits, sizes = {PYTORCH: logits_of(classifier)}, {}
    with TemporaryDirectory() as folder:
        for name in (ONNX, INT8):
            out = Path(folder, name)
            to_onnx(checkpoint, out, int8=name == INT8)
            logits[name] = logits_of(OnnxClassifier(out))
            sizes[name] = sum(path.stat().st_size for path in out.glob(f"{ONNX_GRAPH}*"))  # weights may have a file
    accuracy = {name: 100 * float((each.argmax(1) == targets).double().mean()) for name, each in logits.items()}
    return {
        **{(ACCURACY, name, "%"): value for name, value in accuracy.items()},
        (LOST, INT8, "points"): accuracy[PYTORCH] - accuracy[INT8],
        **{(LOGITS, name, "logit"): float((logits[name] - logits[PYTORCH]).abs().max()) for name in (ONNX, INT8)},
        (SIZE, INT8, "ratio of bytes"): sizes[INT8] / sizes[ONNX],
    }


def _accuracy_table(records: Sequence[Record]) -> Table:
    rows = []
    for record in records:
        m = {(each.metric, each.model): each for each in record.measurements}
        accuracies = [m[ACCURACY, model] for model in (PYTORCH, ONNX, INT8)]
        lost, size = m[LOST, INT8], m[SIZE, INT8]
        rows.append(
            [
                str(lost.task),
                *(f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})" for each in accuracies),
                f"{lost.value:.2f} ({lost.low:.2f} to {lost.high:.2f})",
                *(f"{m[LOGITS, model].high:.1e}" for model in (ONNX, INT8)),
                f"{size.value:.3f}",
            ]
        )
    head = ["task", PYTORCH, ONNX, INT8, "lost", "logits, ONNX", "logits, int8", "size"]
    caption = (
        f"{NAME}-{records[0].scale}: accuracy in percent and points lost by int8, median over finetuning seeds (lowest "
        "to highest); largest difference of a logit from PyTorch's; size of the int8 file over that of fp32"
    )
    return Table(head, rows, caption)


EXPERIMENTS = (Int8(NAME, "Accuracy in 8 bits", CLAIMS, encoder_tasks.SIZES),)
