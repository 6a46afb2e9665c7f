"""Measurements of classifiers of documents: documents per second, and how many times as fast one is as another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..benchmark.timing import ratio_spread, summarize
from .cells import spread
from .records import Measurement

RATE, RATIO = "documents_per_second", "time_ratio"
RATE_UNIT, RATIO_UNIT = "documents per second", "ratio of times"


def speed_measurements(
    seconds: Mapping[str, Sequence[float]], pairs: Iterable[tuple[str, str]], documents: int, n: int
) -> Iterator[Measurement]:
    """
    Args:
        seconds: of each model, in each round of documents of n tokens.
        pairs: (model, baseline) of each ratio, the baseline's time over the model's.
    """
    for name, times in seconds.items():
        rate = summarize([documents / each for each in times])
        yield Measurement(metric=RATE, model=name, n=n, **spread(rate, RATE_UNIT))
    for name, baseline in pairs:
        ratio = ratio_spread(list(seconds[baseline]), list(seconds[name]))
        yield Measurement(metric=RATIO, model=name, baseline=baseline, n=n, **spread(ratio, RATIO_UNIT))
