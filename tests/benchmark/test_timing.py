"""Interleaved rounds, clocks, and the limit of memory."""

import resource
import time

import pytest
import torch

from fairseq_linformer.benchmark import timing
from fairseq_linformer.benchmark.timing import choose_clock, is_out_of_memory, limit_memory, time_call, time_interleaved


def test_clocks_during_sleep():
    """The wall clock runs; the processor clock hardly advances."""
    assert time_call(lambda: time.sleep(0.1), "wall") >= 0.1
    assert time_call(lambda: time.sleep(0.1), "processor") < 0.05
    assert choose_clock("cpu") == "processor" and choose_clock("cuda") == "wall"


def test_runs_alternate_and_warm_up_is_not_recorded(monkeypatch):
    order, ticks = [], iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    seconds = time_interleaved({name: lambda name=name: order.append(name) for name in "abc"}, rounds=2, warm_up=1)
    assert "".join(order) == "cbaabccba" and seconds == {name: [1, 1] for name in "abc"}


def test_run_that_exceeds_the_memory_is_dropped():
    calls = []

    def fail_later():
        calls.append("a")
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    seconds = time_interleaved({"a": fail_later, "b": lambda: None}, rounds=3, warm_up=1)
    assert list(seconds) == ["b"] and len(seconds["b"]) == 3 and len(calls) == 2

    def fail_otherwise():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes"):
        time_interleaved({"a": fail_otherwise}, rounds=1)


def test_tensor_beyond_the_free_memory_is_an_error(monkeypatch):
    """It could be allocated without the limit, which ends with the block."""
    monkeypatch.setattr(timing, "free_memory", lambda: 2**27)
    before = resource.getrlimit(resource.RLIMIT_AS)
    with limit_memory("cpu"):
        torch.empty(2**26, dtype=torch.uint8)
        with pytest.raises(RuntimeError) as error:
            torch.empty(2**28, dtype=torch.uint8)
    assert is_out_of_memory(error.value) and not is_out_of_memory(RuntimeError("shapes differ"))
    assert resource.getrlimit(resource.RLIMIT_AS) == before and torch.empty(2**28, dtype=torch.uint8).numel() == 2**28
    with limit_memory("cuda"):
        assert resource.getrlimit(resource.RLIMIT_AS) == before
