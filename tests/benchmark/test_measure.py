"""Forward passes and training steps: what is compared, counted and resumed, and what cannot be measured."""

import itertools
import json
from dataclasses import asdict, replace
from functools import partial

import pytest
import torch

from fairseq_linformer.benchmark import measure
from fairseq_linformer.benchmark.flops import count_flops
from fairseq_linformer.benchmark.measure import Setup, inference, measure_once, step_operations, training
from fairseq_linformer.benchmark.models import CLASSIFY, MASKED_LM
from fairseq_linformer.benchmark.rows import Case, Row
from fairseq_linformer.reproduction.result import Rows

from .device_syncs import DeviceSyncs

SETUP = Setup(layers=1, embed_dim=64, vocabulary=100, rounds=2)


@pytest.fixture
def clock(monkeypatch):
    """Each call takes as many seconds as its number: 1, 2, 3, ..."""
    calls = itertools.count(1)

    def time_call(run, clock, device):
        run()
        return float(next(calls))

    monkeypatch.setattr("fairseq_linformer.benchmark.timing.time_call", time_call)


def test_inference_compares_models_windows_and_lengths(clock):
    """Two rounds after the warm-up, in which case i takes i, then 2 m - i + 1 more seconds."""
    cases = [Case("transformer-sdpa", 32), *(Case("linformer", n, 8, window) for n in (32, 64) for window in (0, 4))]
    rows = Rows(inference(cases, 64, replace(SETUP, warm_up=0), memory=True))
    first, second = [1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 9.0, 8.0, 7.0, 6.0]
    times = {case: [1e6 * each / 64 for each in rounds] for case, rounds in zip(cases, map(list, zip(first, second)))}
    for case, rounds in times.items():
        row = rows.find("microseconds_per_token", **{"local_window": None, **case.keys})
        assert (row.low, row.high) == (pytest.approx(min(rounds), rel=1e-4), pytest.approx(max(rounds), rel=1e-4))
    (plain, windowed) = rows.select("time_ratio", baseline="transformer-sdpa")
    assert (plain.n, plain.k, plain.low, plain.high) == (32, 8, 0.5, pytest.approx(10 / 9, rel=1e-4))
    # Computed within rounds: the medians of both are 5.5.
    assert (plain.value, plain.repetitions) == (pytest.approx((0.5 + 10 / 9) / 2, rel=1e-4), 2)
    assert windowed.local_window == 4 and windowed.low == pytest.approx(1 / 3, rel=1e-4)
    sizes = {Case(row.model, row.n, row.k, row.local_window or 0): row.value for row in rows.select("bytes")}
    assert sizes.keys() == {*cases} and sizes[cases[2]] > sizes[cases[1]] > 64 * 4 * 64
    (share, _) = rows.select("bytes_share")
    assert share.value == pytest.approx(sizes[cases[1]] / sizes[cases[0]], rel=1e-3)


def test_what_cannot_be_measured_has_a_reason(monkeypatch):
    """A length that a model does not support, and a lack of memory while it is built or runs."""
    cases = [Case("bigbird", 32), Case("linformer", 32, 8), Case("linformer", 32, 16), Case("transformer-eager", 32)]
    build = Setup.build

    def build_or_fail(self, case, task):
        if case.k == 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return build(self, case, task)

    monkeypatch.setattr(Setup, "build", build_or_fail)
    monkeypatch.setattr(Setup, "time", lambda self, runs: {cases[1]: [1.0]})
    rows = Rows(inference(cases, 32, SETUP))
    assert [(row.model, row.k, row.reason) for row in rows.select("failed")] == [
        ("bigbird", None, "up to n = 704 BigBird uses full attention"),
        ("linformer", 16, "out of memory"),
        ("transformer-eager", None, "out of memory"),
    ]
    assert [row.k for row in rows.select("microseconds_per_token")] == [8]


def test_rates_and_utilization_of_a_known_gpu(clock, monkeypatch):
    """Operations over seconds and the peak of the data sheet; other GPUs have none. The meta device is the GPU."""
    monkeypatch.setattr(measure, "build_step", lambda module, inputs: lambda: module(*inputs).backward())
    monkeypatch.setattr(measure, "step_peak_bytes", lambda module, inputs, device: 8)
    case, setup = Case("linformer", 32, 8), replace(SETUP, device="meta", dtype="bf16", warm_up=0)
    for name, seconds in (("NVIDIA H100 80GB HBM3", (1, 2)), ("another", (3, 4))):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
        rows = Rows(training([case], 64, setup))
        assert {row.phase for row in rows} == {"pretraining"} and rows.find("bytes").value == 8
        rate = rows.find("tokens_per_second")
        assert [rate.high, rate.low] == pytest.approx([64 / each for each in seconds], rel=1e-4)
        used = [row.high for row in rows.select("utilization")]
        known = step_operations(case, 64, setup) / 989e12
        assert used == ([pytest.approx(known, rel=1e-4)] if "H100" in name else [])


@pytest.mark.parametrize("model", ["ours", "roberta", "transformer-eager"])
@pytest.mark.parametrize("positions, task", [(None, MASKED_LM), (64, CLASSIFY)])
def test_operations_of_a_step_equal_pytorchs(model, positions, task):
    case, setup = Case(model, 64, 16 if model == "ours" else None, 0, positions), replace(SETUP, layers=3)
    module, inputs = setup.build(case, task), setup.step_inputs(case, 128)
    real = count_flops(lambda: module(*inputs).backward())
    # They differ by RoBERTa's head of a classifier, and E's gradient in the first layer.
    assert step_operations(case, 128, setup) == pytest.approx(real, rel=0.03)


def test_our_step_synchronizes_only_before_its_first_product():
    """Three times: is anything padded, the most masked tokens of a sentence, and where they are. fairseq's own RoBERTa
    waits for the whole encoder before it masks."""
    found = {}
    for case in (Case("ours", 32, 16), Case("roberta", 32)):
        with DeviceSyncs() as recorder:
            SETUP.build(case, MASKED_LM)(*SETUP.step_inputs(case, 64)).backward()
        found[case.model] = recorder.syncs
    assert len(found["ours"]) == 3 and all(products == 0 for _, products in found["ours"])
    assert any(products > 0 for _, products in found["roberta"])


def test_measurements_are_resumed(tmp_path, monkeypatch):
    """With the same arguments at the same clean commit, they are read; otherwise measured."""
    now = {"commit": "abc", "hardware": {"cores": 2}, "versions": {"torch": "2"}, "date": "today"}
    monkeypatch.setattr(measure, "provenance", lambda: now)
    path, calls = tmp_path / "out.json", []

    def count(cases, setup):
        calls.append(cases)
        return [Row(metric="calls", value=len(calls), n=cases[0].n)]

    first, second = (partial(count, cases=[Case("ours", n, 4)], setup=SETUP) for n in (8, 16))
    assert [measure_once(path, each)[0][0].value for each in (first, first, second, first)] == [1, 1, 2, 1]
    (stored, _) = json.loads(path.read_text())
    assert stored["settings"] == {
        "function": "count",
        "cases": [["ours", 8, 4, 0, None]],
        "setup": asdict(SETUP),
        "threads": torch.get_num_threads(),
    }
    assert measure_once(path, first)[1] == stored["seconds"]
    assert stored["commit"] == "abc" and stored["rows"] == [{"metric": "calls", "value": 1, "n": 8}]
    assert measure_once(None, first)[0][0].value == 3  # without a file
    now["commit"] = "abc-dirty"
    assert [measure_once(path, first)[0][0].value for _ in range(2)] == [4, 5]
    path.write_text('{"a": 1}')
    with pytest.raises(ValueError, match="out.json"):
        measure_once(path, first)
