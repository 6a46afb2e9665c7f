"""Metrics with confidence intervals: accuracy, F1, correlations and the confusion matrix.

N rows, C classes
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CONFIDENCE = 0.95

Scores = dict[str, Any]
"""Scores of labeled rows, as ``--json`` writes them:

rows         N
scores       accuracy, f1 and matthews, or pearson and spearman, by name: value and interval at level ``CONFIDENCE``
majority     share of the most frequent label; None for regression
confusion    (C, C), rows are labels and columns predictions; empty for regression
"""


def score_classes(targets: ArrayLike, predictions: ArrayLike, C: int, positive: int = 1) -> Scores:
    """Score predicted class indices (N,) against ``targets`` (N,).

    For two classes F1 is that of class ``positive``, otherwise the mean over classes that occur as labels or
    predictions, as in scikit-learn. The interval of accuracy is Wilson's; those of F1 and Matthews' correlation are
    normal, with the standard error of the jackknife; with one row any value is within it. Constant labels or
    predictions have correlation 0, with the interval from -1 to 1.
    """
    targets, predictions = np.asarray(targets, dtype=int), np.asarray(predictions, dtype=int)
    confusion, n = np.bincount(targets * C + predictions, minlength=C * C).reshape(C, C), len(targets)
    num_correct = int(confusion.trace())
    wilson = stats.binomtest(num_correct, n).proportion_ci(CONFIDENCE, "wilson")
    scores = {"accuracy": _score(num_correct / n, wilson)}
    occurring = np.flatnonzero(confusion.sum(0) + confusion.sum(1))
    scores["f1"] = _jackknife(partial(_f1, labels=[positive] if C == 2 else occurring), confusion, lowest=0)
    is_constant = np.ptp(targets) == 0 or np.ptp(predictions) == 0
    scores["matthews"] = _score(0, (-1, 1)) if is_constant else _jackknife(_matthews, confusion, lowest=-1)
    return {
        "rows": n,
        "scores": scores,
        "majority": float(np.bincount(targets).max() / n),
        "confusion": confusion.tolist(),
    }


def score_regression(targets: ArrayLike, predictions: ArrayLike) -> Scores:
    """Pearson and Spearman correlations, as in GLUE, with intervals by Fisher's transformation.

    Constant labels or predictions have correlation 0, with the interval from -1 to 1.
    """
    targets, predictions = np.asarray(targets, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    scores = {}
    for name, transform in (("pearson", np.asarray), ("spearman", stats.rankdata)):
        scores[name] = _score(0, (-1, 1))
        if np.ptp(targets) > 0 and np.ptp(predictions) > 0:
            result = stats.pearsonr(transform(targets), transform(predictions))
            scores[name] = _score(result.statistic, result.confidence_interval(CONFIDENCE))
    return {"rows": len(targets), "scores": scores, "majority": None, "confusion": []}


def _f1(right: np.ndarray, rows: np.ndarray, predicted: np.ndarray, labels: Any) -> float:
    """The mean F1 of ``labels``, from the numbers of each class: right predictions, rows, predictions, (C,) each."""
    return float((2 * right / np.maximum(rows + predicted, 1))[labels].mean())


def _matthews(right: np.ndarray, rows: np.ndarray, predicted: np.ndarray) -> float:
    """Matthews' correlation of several classes (Gorodkin 2004); arguments as for ``_f1``."""
    n = rows.sum()
    variances = (n**2 - rows @ rows) * (n**2 - predicted @ predicted)  # if 0, so is the covariance
    return float((n * right.sum() - rows @ predicted) / np.sqrt(max(variances, 1)))


def _jackknife(metric: Callable[..., float], confusion: np.ndarray, lowest: float) -> dict[str, Any]:
    """A metric with its interval: rows of the same cell change it by the same amount."""
    numbers = np.stack([confusion.diagonal(), confusion.sum(1), confusion.sum(0)]).astype(float)
    value, without, counts = metric(*numbers), [], confusion[confusion > 0]
    if (n := counts.sum()) == 1:  # without which nothing is left to measure
        return _score(value, (lowest, 1))
    for label, prediction in np.argwhere(confusion):
        others = numbers.copy()
        others[(0, 1, 2), (label, label, prediction)] -= label == prediction, 1, 1
        without.append(metric(*others))
    deviations = without - np.average(without, weights=counts)
    half = stats.norm.ppf((1 + CONFIDENCE) / 2) * np.sqrt((n - 1) / n * (counts @ deviations**2))
    return _score(value, np.clip([value - half, value + half], lowest, 1))


def _score(value: float, interval: Sequence[float]) -> dict[str, Any]:
    return {"value": float(value), "interval": [float(end) for end in interval]}


def format_values(name: str, *values: float) -> list[str]:
    """Format an accuracy as a percentage with two digits, any other score with four."""
    return [f"{100 * value:.2f}" if name == "accuracy" else f"{value:.4f}" for value in values]


def format_unit(name: str) -> str:
    """The unit of the values that ``format_values`` returns."""
    return " %" if name == "accuracy" else ""


def warn_of_chance(scores: Scores) -> list[str]:
    """A line if the interval of the accuracy is not above the share of the most frequent of several labels."""
    majority = scores["majority"]
    if majority is None or majority == 1 or scores["scores"]["accuracy"]["interval"][0] > majority:
        return []
    return [f"warning: always predicting the most frequent label, with {100 * majority:.1f} %, may be as accurate"]


def format_scores(scores: Scores, names: Sequence[str], positive: int = 1) -> list[str]:
    """Lines of the printed report.

    Args:
        names: those of the classes; empty for regression.
        positive: as for ``score_classes``.
    """
    f1 = "macro f1" if len(names) > 2 else f"f1 of {names[positive]}" if names else ""
    majority = f", {100 * scores['majority']:.1f} % of them with the most frequent label" if names else ""
    lines = [f"{scores['rows']:,} labeled rows{majority}"]
    for name, score in scores["scores"].items():
        value, low, high = format_values(name, score["value"], *score["interval"])
        title = f1 if name == "f1" else name
        interval = f"{100 * CONFIDENCE:.0f} % interval {low} to {high}"
        lines.append(f"{title:<10}{value:>9}{format_unit(name)}   {interval}")
    lines += warn_of_chance(scores)
    if not names:
        return lines
    width = max([8, *map(len, names)]) + 2
    lines += ["", "label \\ prediction".ljust(width) + "".join(f"{name:>{width}}" for name in names)]
    for name, row in zip(names, scores["confusion"]):
        lines.append(f"{name:<{max(width, 18)}}" + "".join(f"{count:>{width},}" for count in row))
    return lines
