"""Right and wrong answers of models to the same questions, compared question by question."""

from collections.abc import Sequence

import numpy as np

from .result import Row, Rows
from .verdict import CONFIDENCE, Estimate

RESAMPLES = 10_000


def unpack(row: Row) -> np.ndarray:
    """(questions,) the answers in the field ``answers`` of a row, which has their number in ``questions``."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(row.answers), dtype=np.uint8))
    return bits[: row.questions].astype(bool)


def answer_row(answers: Sequence[bool] | np.ndarray, metric: str, **where: object) -> Row:
    """A row of answers, as hexadecimal digits, four in each, with their share in percent."""
    share, digits = 100 * float(np.mean(answers)), np.packbits(np.asarray(answers, dtype=bool)).tobytes().hex()
    return Row(metric=metric, unit="%", value=share, questions=len(answers), answers=digits, **where)


def answers_of(rows: Rows, metric: str, **where: object) -> np.ndarray:
    """(seeds, questions) the answers of a model, in the order of its seeds."""
    found = sorted(rows.select(metric, **where), key=lambda row: row.seed or 0)
    return np.array([unpack(row) for row in found])


def difference(pairs: Sequence[tuple[np.ndarray, np.ndarray]], text: str) -> Estimate:
    """Share of right answers of one model minus that of another in points, mean over tasks, with the bootstrap's 95 %
    interval over questions and, where there are several, seeds.

    Args:
        pairs: the answers of both models to each task, (seeds, questions), with the same seeds and questions.
    """
    draw = np.random.default_rng(0)
    means, samples = [], []
    for a, b in pairs:
        change = a.astype(int) - b.astype(int)
        patterns, counts = np.unique(change, axis=1, return_counts=True)  # a resample only counts its patterns
        by_seed = draw.multinomial(counts.sum(), counts / counts.sum(), RESAMPLES) @ patterns.T / counts.sum()
        seeds = draw.integers(len(change), size=(RESAMPLES, len(change)))
        means.append(change.mean())
        samples.append(np.take_along_axis(by_seed, seeds, 1).mean(1))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(100 * np.mean(samples, 0), [tail, 100 - tail])
    return Estimate(100 * float(np.mean(means)), float(low), float(high), text)
