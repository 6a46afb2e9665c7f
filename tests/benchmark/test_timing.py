"""Runs take turns, and their clocks and ratios are what they say."""

import time

import pytest

from fairseq_linformer.benchmark import timing
from fairseq_linformer.benchmark.timing import Spread, clock_for, in_turns, interleaved, ratio, seconds_of, spread_of


def test_a_known_sleep():
    """The wall clock sees it at least as long as it is; the processor clock, which stands still meanwhile, hardly."""
    assert seconds_of(lambda: time.sleep(0.1), "wall") >= 0.1
    assert seconds_of(lambda: time.sleep(0.1), "processor") < 0.05
    with pytest.raises(ValueError, match="sun"):
        seconds_of(lambda: None, "sun")
    assert clock_for("cpu") == "processor" and clock_for("cuda") == "wall"


def test_runs_take_turns_and_warming_up_does_not_count(monkeypatch):
    order, ticks = [], iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    seconds = interleaved({name: lambda name=name: order.append(name) for name in "abc"}, rounds=2, warm_up=1)
    assert "".join(order) == "cbaabccba" and seconds == {name: [1, 1] for name in "abc"}
    for rounds, warm_up in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match=f"{rounds} rounds after {warm_up}"):
            list(in_turns("a", rounds, warm_up))


def test_ratios_are_of_the_same_round_and_equal_within_their_spread():
    # The machine is twice as slow in the second round; the ratio is not.
    assert (
        ratio([2.0, 4.0, 2.2], [1.0, 2.0, 1.0]) == Spread(2.0, 2.0, 2.2, 3) and not ratio([2.0, 4.0], [1.0, 2.0]).equal
    )
    assert ratio([1.0, 2.2], [1.1, 2.0]).equal and spread_of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="2 rounds against 1"):
        ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="no repetition"):
        spread_of([])
