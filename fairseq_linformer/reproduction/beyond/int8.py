"""Storing weights in 8 bits loses little of a finetuned Linformer's accuracy, at a quarter of the size, and is faster.

**Accuracy**, of the Linformer of Table 2 with k = n / 4 and a local window, finetuned on SST-2 and IMDB with three
seeds, on development rows that were not used for model selection. *accuracy*: by the median over seeds, the int8 graph
loses at most 0.5 points against PyTorch. *logits*: the ONNX graph in single precision differs from PyTorch by at most
1e-4 in every logit of every row and seed. *size*: the int8 file is at most 0.27 times as large as that in single
precision: 8 of 32 bits, scales, and what stays in single precision.

**Speed**, random tokens and weights, two threads, interleaved rounds: with and without a local window, at n = 512 the
int8 graph is in every round at least 1.5 times as fast as PyTorch, and as the ONNX graph in single precision; does not
hold otherwise. Sharing is layerwise; at n of at most 128 k is n, so that nothing is projected.

The stored accuracy, logits and size, of commit f3305e12, are of graphs before a20e7170, whose activations had a scale
per batch instead of per token. Today's have not been measured. Single seeds lose 0.57 points on SST-2 and 0.60 on IMDB.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor

from ...benchmark.timing import num_threads
from ...checkpoints.export_onnx import export_onnx
from ...data.tokenizer_files import DICTIONARY
from ...evaluation.classifier import OnnxClassifier
from ...evaluation.fairseq_classifier import FairseqClassifier, read_prepared_rows
from ...evaluation.predict import Throughput, predict
from .. import document_models
from ..benchmarks import ratio_rows
from ..document_models import MINILM, SMOKE, Reader, time_readers
from ..finetuned import finetune_once, finetuned_result, task_folder
from ..page import Table, pivot
from ..paper import table_2
from ..result import Inputs, Parts, Result, Row, Rows, describe_text, in_words, join, repeated
from ..run import Model
from ..verdict import MIN_SEEDS, UNDECIDED, Check, Verdict, decide

TITLE = "int8"
SAYS = "half a point of accuracy by the median, a quarter of the size (earlier graphs), 1.5 times as fast"
_INPUTS = ("data", "tasks", "encoder")
PARTS: Parts = {
    "smoke": {"speed": (), "imdb": _INPUTS},
    "cpu": {"speed": ()},
    "encoder": {"sst-2": _INPUTS, "imdb": _INPUTS},
}
PYTORCH, ONNX, INT8 = "PyTorch", "ONNX", "int8"
ACCURACY, LOST, LOGITS, SIZE = "accuracy", "accuracy_lost", "logit_difference", "size_ratio"
LIMIT_N, MIN_RATIO = 512, 1.5
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {**SMOKE, "lengths": (32,), "rounds": 2, "tokens": 64, "k": 8, "window": 4},
    "cpu": {**MINILM, "lengths": (32, 128, LIMIT_N), "rounds": 9, "tokens": 2048, "k": 128, "window": 16},
}
"""As in ``long_documents.py``."""
LINFORMERS = ("Linformer", "Linformer, local window")
PAIRS = [(name + document_models.INT8, other) for name in LINFORMERS for other in (name, name + document_models.ONNX)]
"""Each int8 model, with those in single precision."""
MODELS = {scale: sizes["models"][2] for scale, sizes in table_2.ENCODER_SIZES.items()}
"""Those of Table 2 with k = n / 4 and a local window."""


def run(inputs: Inputs) -> Result:
    import onnxscript  # noqa: F401  without it, fail before any work

    return run_speed(inputs) if inputs.part == "speed" else run_accuracy(inputs)


def run_speed(inputs: Inputs) -> Result:
    sizes, rows = SIZES[inputs.scale], Rows()
    ends = ("", document_models.ONNX, document_models.INT8)
    with num_threads(sizes["threads"]), TemporaryDirectory() as folder:
        for n in sizes["lengths"]:
            compared: dict[str, Reader] = {}
            for name, window in zip(LINFORMERS, (0, sizes["window"])):
                reader = Reader(Model.graded(n, min(sizes["k"], n), "layerwise", window))
                compared |= {name + end: reader for end in ends}
            _, seconds = time_readers(compared, n, sizes["rounds"], sizes, False, Path(folder))
            rows += ratio_rows(seconds, PAIRS, n=n)
    return inputs.result(rows, "random tokens", {"sizes": sizes})


def run_accuracy(inputs: Inputs) -> Result:
    """Export the finetuned models of Table 2, which are trained unless they exist."""
    task, model, seeds = inputs.part, MODELS[inputs.scale], table_2.ENCODER_SIZES[inputs.scale]["seeds"]
    checkpoints, results = zip(*(finetune_once(table_2.distilled_job(task, model, seed, inputs)) for seed in seeds))
    found = [measure_exports(checkpoint, task_folder(task, model.n, inputs)) for checkpoint in checkpoints]
    at = {"task": task, "n": model.n, "k": model.k}
    rows = [
        Row(metric=metric, model=name, unit=unit, **repeated([each[metric, name, unit] for each in found]), **at)
        for metric, name, unit in found[0]
    ]
    data = f"{task}: {results[0]['data']}; distilled on: {describe_text(inputs.data)}"
    recipes = [each["recipe"] for each in results]
    return finetuned_result(rows, results, data, inputs, model=model.fields, recipe=recipes)


def measure_exports(checkpoint: Path, data: Path) -> dict[tuple[str, str, str], float]:
    """Numbers of one finetuned model on the rows of its task, by metric, model and unit."""
    classifier = FairseqClassifier(checkpoint, dictionary=data / "input0" / DICTIONARY)
    rows = list(read_prepared_rows(classifier, data, "valid")[1])
    targets = torch.tensor([cast(float, row.target) for row in rows])

    def logits_of(classifier: Any) -> Tensor:
        return torch.stack([logits for _, logits in predict(classifier, rows, Throughput(), total=len(rows))])

    logits, sizes = {PYTORCH: logits_of(classifier)}, {}
    with TemporaryDirectory() as folder:
        for name in (ONNX, INT8):
            out = Path(folder, name)
            export_onnx(checkpoint, out, int8=name == INT8)
            logits[name] = logits_of(OnnxClassifier(out))
            sizes[name] = sum(path.stat().st_size for path in out.glob("onnx/*"))  # weights may have a file
    accuracy = {name: 100 * float((each.argmax(1) == targets).double().mean()) for name, each in logits.items()}
    return {
        **{(ACCURACY, name, "%"): value for name, value in accuracy.items()},
        (LOST, INT8, "points"): accuracy[PYTORCH] - accuracy[INT8],
        **{(LOGITS, name, "logit"): float((logits[name] - logits[PYTORCH]).abs().max()) for name in (ONNX, INT8)},
        (SIZE, INT8, "ratio of bytes"): sizes[INT8] / sizes[ONNX],
    }


# Verdicts


CLAIMS = (
    ("accuracy", "By the median of three seeds, weights in 8 bits cost at most half a point of accuracy.", LOST, 0.5),
    ("logits", "The ONNX graph computes the logits of PyTorch.", LOGITS, 1e-4),
    ("size", "The int8 file is about a quarter as large as that in single precision.", SIZE, 0.27),
)
"""Name, claim, metric and its limit."""


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    exports = {result.part: result.rows for result in results if result.part != "speed"}
    rows = join(results, "speed")
    speed = [speed_check(rows, *pair) for pair in PAIRS if rows]
    faster = "An int8 Linformer classifies at least one and a half times as fast as in single precision."
    found = [Verdict(name, claim, limit_checks(exports, metric, limit)) for name, claim, metric, limit in CLAIMS]
    return [*found, Verdict("speed", faster, speed)]


def limit_checks(exports: dict[str, Rows], metric: str, limit: float) -> list[Check]:
    """Check for each task that the median over seeds, or the largest difference of a logit, is at most the limit."""
    checks = []
    for task in ("sst-2", "imdb") if exports else ():
        row = exports.get(task, Rows()).find(metric, model=ONNX if metric == LOGITS else INT8)
        if row is None or (row.repetitions or 1) < MIN_SEEDS:
            checks.append(Check(UNDECIDED, f"{task} is not measured with {MIN_SEEDS} seeds"))
        else:
            value = row.high if metric == LOGITS else row.value
            text = f"{task}: {value:.3g} [{row.low:.3g}, {row.high:.3g}]; needs ≤ {limit:g}"
            checks.append(decide(value <= limit, text))
    return checks


def speed_check(rows: Rows, int8: str, other: str) -> Check:
    """In every round fast enough."""
    text = f"n = {LIMIT_N}: {int8} over {other}"
    if not (row := rows.find("time_ratio", model=int8, baseline=other, n=LIMIT_N)):
        return Check(UNDECIDED, f"{text} is not measured")
    return decide(
        row.low >= MIN_RATIO, f"{text} {row.value:.2f} [{row.low:.2f}, {row.high:.2f}]; needs ≥ {MIN_RATIO:g}"
    )


def tables(results: Sequence[Result]) -> list[Table]:
    exports = Rows(
        Row(row, task=result.part, quantity=f"{row.metric.replace('_', ' ')}, {row.model}")
        for result in results
        for row in result.rows
        if result.part != "speed"
    )
    speed = Rows(
        Row(row, models=f"{row.model} over {row.baseline}") for row in join(results, "speed").select("time_ratio")
    )
    title = "Accuracy in percent, points lost, largest difference of a logit, and size over that of single precision"
    times = "Times as fast, median [extremes of the rounds]"
    return [
        *pivot(f"{title}; median over seeds [extremes]", exports, "quantity", "task", partial(in_words, digits=4)),
        *pivot(times, speed, "models", "n"),
    ]
