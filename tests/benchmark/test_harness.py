"""The harness measures what it says: a known sleep, a known allocation, known operations."""

import time

import pytest
import torch
from torch import nn

from fairseq_linformer.benchmark import timing
from fairseq_linformer.benchmark.flops import counted, data_sheet_peak, measured_peak, utilisation
from fairseq_linformer.benchmark.inference import Inference
from fairseq_linformer.benchmark.memory import GIB, bytes_of_forward, largest_batch, peak_bytes
from fairseq_linformer.benchmark.scaling import exponent
from fairseq_linformer.benchmark.timing import Spread, clock_for, interleaved, ratio, seconds_of, spread_of
from fairseq_linformer.benchmark.training import Training
from fairseq_linformer.benchmark.waits import Waits


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
    for maker in cell.models().values():
        module, tokens = maker().eval(), torch.full((3, 64), 5)
        with torch.no_grad():
            real = peak_bytes(lambda: module(tokens, padded=False), module, [tokens])
        assert bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64) == real > 3 * 64 * 64 * 4
    half = bytes_of_forward(maker, lambda m, t: m(t, padded=False), 3, 64, dtype=torch.bfloat16)
    assert half == pytest.approx(real / 2, rel=0.1)


def test_the_largest_batch():
    # 10 bytes of parameters, 20 for the first sentence, 15 for each more: 3 fit into 65.
    assert largest_batch(65, 10, 20, 35) == (3, 15) and largest_batch(59, 10, 20, 35)[0] == 2 and largest_batch(29, 10, 20, 35)[0] == 0
    with pytest.raises(ValueError, match="the second must take some"):
        largest_batch(1, 1, 5, 5)
    found = Inference(64, (16,), memory_gib=1, **SMALL).measure()
    one, two = found["bytes"]["k=16"]
    n = found["largest"]["k=16"]
    assert found["fixed"]["k=16"] + one + (n - 1) * (two - one) <= GIB < found["fixed"]["k=16"] + one + n * (two - one)
    assert found["bytes"]["eager"][1] > found["bytes"]["sdpa"][1] and set(found["seconds"]) == {"eager", "sdpa", "k=16"}


def test_known_operations():
    a, b = torch.randn(30, 40), torch.randn(40, 50)
    assert counted(lambda: a @ b) == 2 * 30 * 40 * 50
    assert utilisation(6e12, 2.0, 10e12) == 0.3
    with pytest.raises(ValueError, match="both must be above 0"):
        utilisation(1.0, 0.0, 1.0)
    assert data_sheet_peak("NVIDIA H100 80GB HBM3", torch.bfloat16) == 989e12 and data_sheet_peak("NVIDIA A100", torch.float32) == 19.5e12
    assert data_sheet_peak("another", torch.float32) is None and measured_peak(size=64) > 0


@pytest.mark.parametrize("name", ["ours", "roberta"])
@pytest.mark.parametrize("classify", [False, True])
def test_operations_of_a_step_are_those_that_pytorch_counts(name, classify):
    cell = Training(64, 2, (name,), positions=64, k=16, classify=classify, layers=3, embed_dim=64, heads=4, vocabulary=100)
    module, inputs = cell._build(name), cell._inputs()
    real = counted(lambda: module(*inputs).backward())
    # RoBERTa's head of a classifier, and E's gradient in the first layer, are what differs.
    assert cell.model_operations(name) == pytest.approx(real, rel=0.03)


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
