"""Metrics with confidence intervals: accuracy, F1, correlations, the confusion matrix and calibration.

N rows, C classes
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn import metrics

CONFIDENCE = 0.95
BINS = 10
_DRAWS, _SEED = 10_000, 0
_CELLS = 10_000_000  # entries of confusion matrices held in memory together


@dataclass(frozen=True)
class Score:
    """A metric and its confidence interval at level ``CONFIDENCE``."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence, the probability of the predicted class, is between ``low`` and ``high``."""

    low: float
    high: float
    rows: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """Whether predictions with probability 0.8 are correct 8 times out of 10."""

    expected_error: float
    """Mean |confidence - accuracy| over the bins, weighted by their rows (Guo et al. 2017, equation 3)."""
    negative_log_likelihood: float
    """Mean, in nats."""
    brier: float
    """Squared error of the probabilities, summed over classes, mean over rows (Brier 1950)."""
    bins: list[Bin] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """Metrics of labeled rows.

    Attributes:
        rows: N, the number of labeled rows.
        scores: accuracy, f1 and matthews, or pearson and spearman for regression, by name.
        majority: share of the most frequent label; None for regression.
        confusion: (C, C), rows are labels and columns predictions; empty for regression.
        calibration: None for regression.
    """

    rows: int
    scores: dict[str, Score]
    majority: float | None = None
    confusion: list[list[int]] = field(default_factory=list)
    calibration: Calibration | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score_classes(targets: ArrayLike, probabilities: ArrayLike, positive: int = 1) -> Scores:
    """Score class probabilities (N, C) against class indices ``targets`` (N,).

    For two classes F1 is that of class ``positive``, otherwise the mean over classes. The interval of accuracy is
    Wilson's; those of F1 and Matthews' correlation are percentiles of a bootstrap over rows.

    Raises:
        ValueError: N is 0.
    """
    targets, probabilities = np.asarray(targets, dtype=int), np.asarray(probabilities, dtype=np.float64)
    if not len(targets):
        raise ValueError("scores need at least one labeled row, got 0")
    predictions, classes = probabilities.argmax(1), probabilities.shape[1]
    confusion = metrics.confusion_matrix(targets, predictions, labels=range(classes))
    num_correct = int(confusion.trace())
    wilson = stats.binomtest(num_correct, len(targets)).proportion_ci(CONFIDENCE, "wilson")
    scores = {"accuracy": Score(num_correct / len(targets), (float(wilson.low), float(wilson.high)))}
    ordered = confusion[::-1, ::-1] if classes == 2 and positive == 0 else confusion  # the positive class last
    resampled = _bootstrap(ordered)
    for name, function in BOOTSTRAPPED.items():
        low, high = np.percentile(resampled[name], [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
        scores[name] = Score(float(function(ordered[None])[0]), (float(low), float(high)))
    majority = float(np.bincount(targets).max() / len(targets))
    return Scores(len(targets), scores, majority, confusion.tolist(), _calibration(targets, probabilities))


def score_regression(targets: ArrayLike, predictions: ArrayLike) -> Scores:
    """Pearson and Spearman correlations, as in GLUE, with intervals by Fisher's transformation.

    Constant predictions have correlation 0, with the interval from -1 to 1.

    Raises:
        ValueError: there are fewer than four rows, or the labels are constant.
    """
    targets, predictions = np.asarray(targets, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if len(targets) < 4:
        raise ValueError(f"a correlation needs at least four labeled rows, got {len(targets)}")
    if np.ptp(targets) == 0:
        raise ValueError(f"a correlation needs different labels, got {targets[0]:g} in all {len(targets)} rows")
    if np.ptp(predictions) == 0:
        return Scores(len(targets), {name: Score(0.0, (-1.0, 1.0)) for name in ("pearson", "spearman")})
    pairs = {"pearson": (targets, predictions), "spearman": (stats.rankdata(targets), stats.rankdata(predictions))}
    scores = {}
    for name, pair in pairs.items():
        result = stats.pearsonr(*pair)
        low, high = result.confidence_interval(CONFIDENCE)
        scores[name] = Score(float(result.statistic), (float(low), float(high)))
    return Scores(len(targets), scores)


def f1(confusion: np.ndarray) -> np.ndarray:
    """F1 (...) of confusion matrices (..., C, C); 0 for a class without labels and predictions."""
    true_positives = np.diagonal(confusion, axis1=-2, axis2=-1)
    totals = confusion.sum(-1) + confusion.sum(-2)
    f1 = np.divide(2 * true_positives, totals, out=np.zeros(totals.shape), where=totals > 0)
    return f1[..., 1] if confusion.shape[-1] == 2 else f1.mean(-1)


def matthews_correlation(confusion: np.ndarray) -> np.ndarray:
    """Matthews' correlation (...) of confusion matrices (..., C, C) (Gorodkin 2004); 0 where it is undefined."""
    labels, predictions = confusion.sum(-1).astype(np.float64), confusion.sum(-2).astype(np.float64)
    n = labels.sum(-1)
    numerator = np.trace(confusion, axis1=-2, axis2=-1) * n - (labels * predictions).sum(-1)
    denominator = np.sqrt((n**2 - (labels**2).sum(-1)) * (n**2 - (predictions**2).sum(-1)))
    return np.divide(numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0)


BOOTSTRAPPED = {"f1": f1, "matthews": matthews_correlation}


def _bootstrap(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """Each metric of ``BOOTSTRAPPED`` (_DRAWS,) for resampled rows, whose confusion matrix is multinomial."""
    rng, n, parts = np.random.default_rng(_SEED), confusion.sum(), []
    chunk = max(1, _CELLS // confusion.size)
    for remaining in range(_DRAWS, 0, -chunk):
        samples = rng.multinomial(n, confusion.ravel() / n, min(remaining, chunk)).reshape(-1, *confusion.shape)
        parts.append([function(samples) for function in BOOTSTRAPPED.values()])
    return dict(zip(BOOTSTRAPPED, map(np.concatenate, zip(*parts))))


def _calibration(targets: np.ndarray, probabilities: np.ndarray) -> Calibration:
    confidence, is_correct = probabilities.max(1), probabilities.argmax(1) == targets
    bin_of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins, expected_error = [], 0.0
    for i in range(BINS):
        means: tuple[float, float] | tuple[None, None] = (None, None)
        if count := int((inside := bin_of == i).sum()):
            means = (float(confidence[inside].mean()), float(is_correct[inside].mean()))
            expected_error += count * abs(means[0] - means[1])
        bins.append(Bin(i / BINS, (i + 1) / BINS, count, *means))
    likelihood = probabilities[np.arange(len(targets)), targets]
    label = np.eye(probabilities.shape[1])[targets]
    return Calibration(
        expected_error / len(targets),
        float(-np.log(np.maximum(likelihood, np.finfo(np.float64).tiny)).mean()),
        float(((probabilities - label) ** 2).sum(1).mean()),
        bins,
    )


def format_values(name: str, *values: float) -> list[str]:
    """Format an accuracy as a percentage with two digits, any other score with four."""
    return [f"{100 * value:.2f}" if name == "accuracy" else f"{value:.4f}" for value in values]


def format_unit(name: str) -> str:
    """The unit of the values that ``format_values`` returns."""
    return " %" if name == "accuracy" else ""


def format_scores(scores: Scores, names: Sequence[str]) -> list[str]:
    """Lines of the printed report."""
    majority = f", {100 * scores.majority:.1f} % of them with the most frequent label" if scores.majority else ""
    lines = [f"{scores.rows:,} labeled rows{majority}"]
    for name, score in scores.scores.items():
        value, low, high = format_values(name, score.value, *score.interval)
        interval = f"{100 * CONFIDENCE:.0f} % interval {low} to {high}"
        lines.append(f"{name:<10}{value:>9}{format_unit(name)}   {interval}")
    if scores.confusion:
        width = max([8, *map(len, names)]) + 2
        lines += ["", "label \\ prediction".ljust(width) + "".join(f"{name:>{width}}" for name in names)]
        for name, row in zip(names, scores.confusion):
            lines.append(f"{name:<{max(width, 18)}}" + "".join(f"{count:>{width},}" for count in row))
    if c := scores.calibration:
        log_likelihood = f"negative log-likelihood {c.negative_log_likelihood:.4f}"
        lines += ["", f"calibration: expected error {c.expected_error:.4f}, {log_likelihood}, Brier {c.brier:.4f}"]
        lines.append("confidence       rows   mean  accuracy")
        for b in c.bins:
            if b.rows:
                lines.append(f"{b.low:.1f} to {b.high:.1f} {b.rows:10,}  {b.confidence:.3f}  {b.accuracy:.3f}")
    return lines
