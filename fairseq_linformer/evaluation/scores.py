"""Scores of predictions: accuracy and F1 with their intervals, confusion, calibration, correlation.

    N rows, C classes
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from scipy import stats
from sklearn import metrics

CONFIDENCE = 0.95
BINS = 10
_DRAWS, _SEED = 10_000, 0
_CELLS = 10_000_000  # of confusion matrices, in memory at a time


@dataclass(frozen=True)
class Score:
    """A number with its interval at ``CONFIDENCE``; None where there is none."""

    value: float
    interval: Optional[Tuple[float, float]] = None


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence, the probability of the chosen class, lies between two bounds."""

    low: float
    high: float
    rows: int
    confidence: Optional[float]
    accuracy: Optional[float]


@dataclass(frozen=True)
class Calibration:
    """Is a class with probability 0.8 right 8 times out of 10?"""

    expected_error: float
    """Mean distance of confidence and accuracy over the bins, by their rows (Guo et al. 2017, equation 3)."""
    negative_log_likelihood: float
    """Mean, in nats."""
    brier: float
    """Mean over rows of the squared distance between probabilities and label, summed over classes (Brier 1950)."""
    bins: List[Bin] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """
    Attributes:
        rows: N, those with a label.
        scores: by name: accuracy, f1 and matthews; or pearson and spearman.
        majority: share of the most frequent label; None for scores.
        confusion: (C, C), rows are labels and columns predictions; empty for scores.
        calibration: None for scores.
    """

    rows: int
    scores: Dict[str, Score]
    majority: Optional[float] = None
    confusion: List[List[int]] = field(default_factory=list)
    calibration: Optional[Calibration] = None

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return asdict(self)


def of_classes(targets: Sequence[int], probabilities: np.ndarray) -> Scores:
    """
    F1 is that of class 1 if there are two classes, as GLUE has it, else the mean over the classes. The interval of the
    accuracy is Wilson's; those of F1 and of Matthews' correlation are percentiles of a bootstrap over the rows.

    Args:
        targets: (N,) numbers of the classes.
        probabilities: (N, C).

    Raises:
        ValueError: there are no rows.
    """
    targets, probabilities = np.asarray(targets, dtype=int), np.asarray(probabilities, dtype=np.float64)
    if not len(targets):
        raise ValueError("there are no rows with a label; nothing can be scored")
    predictions, classes = probabilities.argmax(1), probabilities.shape[1]
    confusion = metrics.confusion_matrix(targets, predictions, labels=range(classes))
    right = int(confusion.trace())
    wilson = stats.binomtest(right, len(targets)).proportion_ci(CONFIDENCE, "wilson")
    scores = {"accuracy": Score(right / len(targets), (float(wilson.low), float(wilson.high)))}
    drawn = _drawn(confusion)
    for name, function in BOOTSTRAPPED.items():
        low, high = np.percentile(drawn[name], [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
        scores[name] = Score(float(function(confusion[None])[0]), (float(low), float(high)))
    majority = float(np.bincount(targets).max() / len(targets))
    return Scores(len(targets), scores, majority, confusion.tolist(), _calibration(targets, probabilities))


def of_scores(targets: Sequence[float], predictions: Sequence[float]) -> Scores:
    """Correlations of a task whose labels are scores, as GLUE has them; intervals by Fisher's transformation.

    A model that gives every row the same score has correlation 0, from -1 to 1.

    Raises:
        ValueError: fewer than four rows, or labels that are all the same.
    """
    targets, predictions = np.asarray(targets, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if len(targets) < 4:
        raise ValueError(f"{len(targets)} rows have a label; a correlation needs at least four")
    if np.ptp(targets) == 0:
        raise ValueError(f"the labels of all {len(targets)} rows are {targets[0]:g}; there is no correlation")
    if np.ptp(predictions) == 0:
        return Scores(len(targets), {name: Score(0.0, (-1.0, 1.0)) for name in ("pearson", "spearman")})
    pairs = {"pearson": (targets, predictions), "spearman": (stats.rankdata(targets), stats.rankdata(predictions))}
    scores = {}
    for name, pair in pairs.items():
        found = stats.pearsonr(*pair)
        scores[name] = Score(float(found.statistic), tuple(map(float, found.confidence_interval(CONFIDENCE))))
    return Scores(len(targets), scores)


def f1_of(confusion: np.ndarray) -> np.ndarray:
    """(..., C, C) to (...); 0 for a class that neither occurs nor is predicted, as in scikit-learn."""
    both = np.diagonal(confusion, axis1=-2, axis2=-1)
    either = confusion.sum(-1) + confusion.sum(-2)
    f1 = np.divide(2 * both, either, out=np.zeros(either.shape), where=either > 0)
    return f1[..., 1] if confusion.shape[-1] == 2 else f1.mean(-1)


def matthews_of(confusion: np.ndarray) -> np.ndarray:
    """(..., C, C) to (...): Matthews' correlation for C classes (Gorodkin 2004); 0 where it is not defined."""
    labels, predictions = confusion.sum(-1).astype(np.float64), confusion.sum(-2).astype(np.float64)
    n = labels.sum(-1)
    above = np.trace(confusion, axis1=-2, axis2=-1) * n - (labels * predictions).sum(-1)
    below = np.sqrt((n**2 - (labels**2).sum(-1)) * (n**2 - (predictions**2).sum(-1)))
    return np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


BOOTSTRAPPED = {"f1": f1_of, "matthews": matthews_of}


def _drawn(confusion: np.ndarray) -> Dict[str, np.ndarray]:
    """Each of ``BOOTSTRAPPED`` (_DRAWS,) for resampled rows, of which only the confusion matrix matters."""
    rng, n, parts = np.random.default_rng(_SEED), confusion.sum(), []
    at_once = max(1, _CELLS // confusion.size)
    for left in range(_DRAWS, 0, -at_once):
        drawn = rng.multinomial(n, confusion.ravel() / n, min(left, at_once)).reshape(-1, *confusion.shape)
        parts.append([function(drawn) for function in BOOTSTRAPPED.values()])
    return dict(zip(BOOTSTRAPPED, map(np.concatenate, zip(*parts))))


def _calibration(targets: np.ndarray, probabilities: np.ndarray) -> Calibration:
    confidence, right = probabilities.max(1), probabilities.argmax(1) == targets
    bin_of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = []
    for i in range(BINS):
        inside = bin_of == i
        means = (float(confidence[inside].mean()), float(right[inside].mean())) if inside.any() else (None, None)
        bins.append(Bin(i / BINS, (i + 1) / BINS, int(inside.sum()), *means))
    likelihood = probabilities[np.arange(len(targets)), targets]
    label = np.eye(probabilities.shape[1])[targets]
    return Calibration(
        sum(b.rows * abs(b.confidence - b.accuracy) for b in bins if b.rows) / len(targets),
        float(-np.log(np.maximum(likelihood, np.finfo(np.float64).tiny)).mean()),
        float(((probabilities - label) ** 2).sum(1).mean()),
        bins,
    )


def in_words(name: str, *values: float) -> List[str]:
    """Values of a score as text: an accuracy in per cent with two digits, the others with four."""
    return [f"{100 * value:.2f}" if name == "accuracy" else f"{value:.4f}" for value in values]


def unit_of(name: str) -> str:
    """What follows ``in_words``."""
    return " %" if name == "accuracy" else ""


def table(scores: Scores, names: Sequence[str]) -> List[str]:
    """For a reader."""
    majority = f", {100 * scores.majority:.1f} % of the most frequent one" if scores.majority else ""
    lines = [f"{scores.rows:,} rows with a label{majority}"]
    for name, score in scores.scores.items():
        value, low, high = in_words(name, score.value, *score.interval)
        interval = f"{100 * CONFIDENCE:.0f} % interval {low} to {high}"
        lines.append(f"{name:<10}{value:>9}{unit_of(name)}   {interval}")
    if scores.confusion:
        width = max(8, *map(len, names)) + 2
        lines += ["", "label \\ prediction".ljust(width) + "".join(f"{name:>{width}}" for name in names)]
        for name, row in zip(names, scores.confusion):
            lines.append(f"{name:<{max(width, 18)}}" + "".join(f"{count:>{width},}" for count in row))
    if c := scores.calibration:
        log_likelihood = f"negative log-likelihood {c.negative_log_likelihood:.4f}"
        lines += ["", f"calibration: expected error {c.expected_error:.4f}, {log_likelihood}, Brier {c.brier:.4f}"]
        lines.append("confidence       rows   mean  right")
        for b in c.bins:
            if b.rows:
                lines.append(f"{b.low:.1f} to {b.high:.1f} {b.rows:10,}  {b.confidence:.3f}  {b.accuracy:.3f}")
    return lines
