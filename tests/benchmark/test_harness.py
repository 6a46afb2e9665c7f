"""The harness measures what it says: a known sleep, a known allocation, known operations."""

import re
import time
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from fairseq_linformer.benchmark import cells, inference, timing, training
from fairseq_linformer.benchmark.cells import Provenance, measure, read
from fairseq_linformer.benchmark.flops import counted, data_sheet_peak, measured_peak, utilisation
from fairseq_linformer.benchmark.inference import Inference
from fairseq_linformer.benchmark.memory import GIB, bytes_of_forward, largest_batch, peak_bytes
from fairseq_linformer.benchmark.scaling import exponent
from fairseq_linformer.benchmark.timing import Spread, clock_for, interleaved, ratio, seconds_of, spread_of
from fairseq_linformer.benchmark.training import KEPT, Training
from fairseq_linformer.benchmark.waits import Waits
from fairseq_linformer.reproduce.benchmarks import MEASURED
from fairseq_linformer.reproduce.ledger import Measurement


def test_a_known_sleep():
    """The wall sees it at least as long as it is; the processor, which does nothing meanwhile, hardly."""
    assert seconds_of(lambda: time.sleep(0.1), "wall") >= 0.1
    assert seconds_of(lambda: time.sleep(0.1), "processor") < 0.05
    with pytest.raises(ValueError, match="clock is 'sun'; it must be one of processor, wall"):
        seconds_of(lambda: None, "sun")
    assert clock_for("cpu") == "processor" and clock_for("cuda") == "wall"


def test_runs_take_turns_and_warming_up_does_not_count(monkeypatch):
    order, ticks = [], iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    seconds = interleaved({name: lambda name=name: order.append(name) for name in "abc"}, rounds=2, warm_up=1)
    assert "".join(order) == "cba" "abc" "cba" and seconds == {name: [1, 1] for name in "abc"}
    with pytest.raises(ValueError, match="0 rounds"):
        interleaved({}, 0)


def test_ratios_are_of_the_same_round_and_equal_within_their_spread():
    # The machine is twice as slow in the second round; the ratio is not.
    assert ratio([2.0, 4.0, 2.2], [1.0, 2.0, 1.0]) == Spread(2.0, 2.0, 2.2, 3) and not ratio([2.0, 4.0], [1.0, 2.0]).equal
    assert ratio([1.0, 2.2], [1.1, 2.0]).equal and spread_of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="2 rounds against 1"):
        ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="no repetition"):
        spread_of([])


class Allocates(nn.Module):
    """At most 1,000 + 3,000 + 500 numbers at once beside its parameters: the first two are there while the third is made."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000))

    def forward(self, x):
        y = self.weight * 2
        z = torch.cat([y, y, y])
        s = z[:500] + 1
        del z, y
        return s + 1


def test_a_known_allocation():
    module, x = Allocates(), torch.zeros(77)
    with torch.no_grad():
        assert peak_bytes(lambda: module(x), module, [x]) == 4 * 4500
    w = nn.Linear(1000, 1000, bias=False)  # backward keeps x, and makes a gradient of the weight before it is added
    w.weight.grad = torch.zeros_like(w.weight)
    x = torch.ones(4, 1000)
    assert peak_bytes(lambda: w(x).sum().backward(), w, [x]) == pytest.approx(4 * (4000 + 1_000_000), rel=0.01)


SMALL = dict(tokens=128, layers=2, embed_dim=64, heads=4, vocabulary=100)


def test_tensors_without_memory_count_as_those_with():
    cell = Inference(64, (16,), **SMALL)
    for maker in cell.makers().values():
        module, tokens = maker().eval(), torch.full((3, 64), 5)
        with torch.no_grad():
            real = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
        assert bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64) == real > 3 * 64 * 64 * 4
    half = bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64, dtype=torch.bfloat16)
    assert half == pytest.approx(real / 2, rel=0.1)


def test_the_largest_batch():
    # 10 bytes of parameters, 20 for the first sentence, 15 for each more: 3 fit into 65. The same of 2 and 4.
    assert largest_batch(65, 10, 1, 20, 35) == (3, 15) and largest_batch(59, 10, 1, 20, 35)[0] == 2 and largest_batch(29, 10, 1, 20, 35)[0] == 0
    assert largest_batch(65, 10, 2, 35, 65) == (3, 15) and largest_batch(29, 10, 2, 35, 65)[0] == 0 and largest_batch(0, 10, 2, 35, 65)[0] == 0
    with pytest.raises(ValueError, match="which must take more"):
        largest_batch(1, 1, 1, 5, 5)
    cell = Inference(64, (16,), memory_gib=1, **SMALL)
    found = cell.measure()
    n = found["largest"]["k=16"]
    for batch, fits in ((n, True), (n + max(1, n // 1000), False)):  # to a thousandth: what is there is counted, not what was foreseen
        assert (found["fixed"]["k=16"] + cell._bytes(cell.makers()["k=16"], batch, "cpu") <= GIB) == fits
    assert found["bytes"]["eager"][1] > found["bytes"]["sdpa"][1] and set(found["seconds"]) == {"eager", "sdpa", "k=16"}


def test_what_does_not_fit_is_counted_and_told(monkeypatch):
    """On a GPU, mocked here: of two sentences that are too many the allocator is not asked, and one that fits is still run."""
    asked = []
    monkeypatch.setattr(inference, "MANY_TOKENS", 256)  # of one sentence and two
    cell = Inference(256, (16,), **{**SMALL, "tokens": 256, "device": "cuda"})
    known = {"cpu": cell._bytes, "cuda": lambda maker, batch, device: asked.append(maker) or known["cpu"](maker, batch, "cpu")}
    monkeypatch.setattr(Inference, "_bytes", lambda self, maker, batch, device: known[device](maker, batch, device))
    monkeypatch.setattr(Inference, "_seconds", lambda self, bytes_, fixed: ({}, {}))
    found = cell.measure()
    one, two = found["bytes"]["eager"]
    assert found["counted"] == [] and len(asked) == 6
    between = (found["fixed"]["eager"] + (one + two) / 2) / GIB
    found = replace(cell, usable_gib=between).measure()
    assert found["counted"] == ["eager"] and found["bytes"]["eager"] == [one, two]
    monkeypatch.undo()
    monkeypatch.setattr(inference, "MANY_TOKENS", 256)
    for usable, models in ((between, {"eager", "sdpa", "k=16"}), ((found["fixed"]["eager"] + one / 2) / GIB, {"sdpa", "k=16"})):
        measured = replace(cell, device="cpu", usable_gib=usable).measure()
        assert set(measured["seconds"]) == models and set(measured["failed"]) == {"eager", "sdpa", "k=16"} - models
    assert re.fullmatch(r"its batch takes .* GiB, and .* may be used", measured["failed"]["eager"])


def test_known_operations():
    a, b = torch.randn(30, 40), torch.randn(40, 50)
    assert counted(lambda: a @ b) == 2 * 30 * 40 * 50
    assert utilisation(6e12, 2.0, 10e12) == 0.3
    with pytest.raises(ValueError, match="both must be above 0"):
        utilisation(1.0, 0.0, 1.0)
    assert data_sheet_peak("NVIDIA H100 80GB HBM3", torch.bfloat16) == 989e12 and data_sheet_peak("NVIDIA A100", torch.float32) == 19.5e12
    assert data_sheet_peak("another", torch.float32) is None and measured_peak(size=64) > 0
    assert data_sheet_peak("NVIDIA H100 PCIe", torch.bfloat16) is None  # the table has the board that is faster


@dataclass(frozen=True)
class Pretends:
    """A cell of a GPU that measures nothing."""

    name: str = "pretends"
    device: str = "cuda"
    dtype: str = "bf16"
    layers: int = 1
    clock: str = "wall"

    def operations(self):
        return 0.0

    def measure(self):
        return {}


@pytest.mark.parametrize("name, peak", [("NVIDIA H200", (989e12, "data sheet")), ("another", (7e12, "a matrix product"))])
def test_a_cell_of_a_gpu_says_what_its_data_sheet_says(name, peak, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
    monkeypatch.setattr(cells, "measured_peak", lambda *_: 7e12)
    monkeypatch.setattr(cells, "hardware", dict)
    measure([Pretends()], tmp_path, Provenance("abc", "command"))
    found = read(tmp_path / "pretends.json")
    assert (found["peak_operations_per_second"], found["peak_from"]) == peak
    step = {"configuration": {"n": 8, "classify": False, "models": ["ours"]}, "peak_operations_per_second": peak[0],
            "measured": {"tokens": 8, "operations": {"ours": peak[0]}, "seconds": {"ours": [2.0, 4.0, 5.0]}}}  # fmt: skip
    assert dict(MEASURED["training"](step))["pretraining n=8: utilisation by ours"] == Measurement(0.25, "share of the peak", [0.2, 0.5], 3)


@pytest.mark.parametrize("name", ["ours", "roberta", "transformer-eager"])
@pytest.mark.parametrize("classify", [False, True])
def test_operations_of_a_step_are_those_that_pytorch_counts(name, classify):
    cell = Training(64, 2, (name,), positions=64, k=16, classify=classify, layers=3, embed_dim=64, heads=4, vocabulary=100)
    module, inputs = cell._build(name), cell._inputs()
    real = counted(lambda: module(*inputs).backward())
    # RoBERTa's head of a classifier, and E's gradient in the first layer, are what differs.
    assert cell.model_operations(name) == pytest.approx(real, rel=0.03)


def test_a_model_whose_bytes_were_counted_keeps_none(monkeypatch):
    """The memory tracker's hooks hold the module; a run of many cells at base size was killed for memory."""
    cell, built = Training(64, 2, ("ours-modules",), positions=64, k=16, layers=2, embed_dim=64, heads=4, vocabulary=100, memory=True), []
    build = Training._build
    monkeypatch.setattr(Training, "_build", lambda self, name: built.append(build(self, name)) or built[-1])
    assert cell.measure()["bytes"]["ours-modules"] > 0
    assert sum(p.untyped_storage().nbytes() for p in built[0].parameters()) == 0 and all(p.grad is None for p in built[0].parameters())


@pytest.mark.parametrize("memory, transformer", [(True, "roberta"), (False, "roberta"), (False, "transformer-eager"), (False, "transformer-sdpa")])
def test_a_transformer_that_there_is_no_room_for_is_told_and_the_others_are_measured(memory, transformer, monkeypatch):
    cell = Training(64, 2, ("ours", transformer), positions=64, k=16, layers=2, embed_dim=64, heads=4, vocabulary=100, memory=memory, rounds=1)
    weights = KEPT * 2 * 4 * 2 * 64**2 * 4
    for free, failed in ((weights - 1, {transformer}), (weights, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        found = cell.measure()
        assert set(found["failed"]) == failed and set(found["bytes" if memory else "seconds"]) == set(cell.models) - failed
        assert not failed or re.fullmatch(r"its weights take .* GiB, and .* are free", found["failed"][transformer])


@pytest.mark.parametrize("memory", [False, True])
def test_a_model_that_fills_short_inputs_up_and_has_no_room_is_told(memory, monkeypatch):
    """Of 32 sentences of 32 tokens ``linformer-pytorch`` computes 16,384 tokens; at base size the system killed the process."""
    monkeypatch.setattr(training, "FILLED_UP", ("ours-modules",))
    cell = Training(32, 2, ("ours-modules",), positions=64, k=16, classify=True, layers=2, embed_dim=64, heads=4, vocabulary=100, memory=memory, rounds=1)
    needed = 2 * replace(cell, batch=1)._bytes("ours-modules") + 16 * sum(p.numel() for p in cell._build("ours-modules").parameters())
    for free, failed in ((0.9 * needed, {"ours-modules"}), (1.1 * needed, set())):
        monkeypatch.setattr(training, "free_memory", lambda: free)
        found = cell.measure()
        assert set(found["failed"]) == failed and set(found["bytes" if memory else "seconds"]) == {"ours-modules"} - failed
        assert not failed or re.fullmatch(r"filled up to n = 64 and beside the other models it takes .* GiB, and .* are free", found["failed"]["ours-modules"])
    monkeypatch.setattr(training, "free_memory", lambda: 0.0)
    assert not replace(cell, n=64).measure()["failed"]  # of full length nothing is filled up


def test_the_weights_that_a_transformer_keeps():
    """What grows as the square of n is ``KEPT`` matrices a head: of three lengths the second difference is 2 n^2 of them. The fused kernel keeps them too."""
    cell = Training(64, 1, ("roberta",), positions=192, k=16, layers=2, embed_dim=64, heads=4, vocabulary=100, memory=True)
    a, b, c = (replace(cell, n=n)._bytes("roberta") for n in (64, 128, 192))
    assert (a + c - 2 * b) / (2 * 64**2 * 2 * 4 * 4) == pytest.approx(KEPT, rel=0.15)
    eager, fused = (replace(cell, models=(name,), n=192)._bytes(name) for name in ("transformer-eager", "transformer-sdpa"))
    assert fused == pytest.approx(eager, rel=0.15)


def test_the_exponent_of_a_power():
    assert exponent([512, 1024, 4096], [5 * n**0.7 for n in (512, 1024, 4096)]) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="1 lengths and 1 times"):
        exponent([512], [1.0])


def test_our_step_waits_before_its_first_product_only():
    """Three times (is anything padded, the most masked tokens of a sentence, where they are); fairseq's own RoBERTa waits for
    the whole encoder before it masks."""
    x = torch.randn(4, 4)
    with Waits() as waits:
        y = (x @ x)[x > 0]
        float(y.sum())
    assert waits.found == [("index", 1), ("_local_scalar_dense", 1)]
    cell = Training(32, 2, ("ours", "roberta"), positions=32, k=8, layers=2, embed_dim=64, heads=4, vocabulary=100)
    found = {}
    for name in cell.models:
        with Waits() as waits:
            cell._build(name)(*cell._inputs()).backward()
        found[name] = waits.found
    assert len(found["ours"]) == 3 and all(products == 0 for _, products in found["ours"])
    assert any(products > 0 for _, products in found["roberta"])
