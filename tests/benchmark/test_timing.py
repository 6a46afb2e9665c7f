"""Interleaved rounds, clocks and ratios."""

import time

import pytest
import torch

from fairseq_linformer.benchmark import timing
from fairseq_linformer.benchmark.timing import (
    Spread,
    alternate,
    choose_clock,
    ratio_spread,
    summarize,
    time_call,
    time_interleaved,
)


def test_clocks_during_sleep():
    """The wall clock runs; the processor clock hardly advances."""
    assert time_call(lambda: time.sleep(0.1), "wall") >= 0.1
    assert time_call(lambda: time.sleep(0.1), "processor") < 0.05
    with pytest.raises(ValueError, match="sun"):
        time_call(lambda: None, "sun")
    assert choose_clock("cpu") == "processor" and choose_clock("cuda") == "wall"


def test_runs_alternate_and_warm_up_is_not_recorded(monkeypatch):
    order, ticks = [], iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    seconds = time_interleaved({name: lambda name=name: order.append(name) for name in "abc"}, rounds=2, warm_up=1)
    assert "".join(order) == "cbaabccba" and seconds == {name: [1, 1] for name in "abc"}
    for rounds, warm_up in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match=f"{rounds} and {warm_up}"):
            list(alternate("a", rounds, warm_up))


def test_run_that_exceeds_the_memory_is_dropped():
    calls = []

    def fail_later():
        calls.append("a")
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    seconds = time_interleaved({"a": fail_later, "b": lambda: None}, rounds=3, warm_up=1)
    assert list(seconds) == ["b"] and len(seconds["b"]) == 3 and len(calls) == 2


def test_ratios_are_computed_within_rounds():
    # The machine is half as fast in the second round; the ratio does not change.
    assert ratio_spread([2.0, 4.0, 2.2], [1.0, 2.0, 1.0]) == Spread(2.0, 2.0, 2.2, 3)
    assert summarize([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="2 and 1"):
        ratio_spread([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one repetition"):
        summarize([])
