"""The path of a GPU, on tensors without memory: nothing is computed on the CPU, and a precision takes 8 minutes."""

import re
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.benchmark import __main__ as bare
from fairseq_linformer.benchmark import cells, inference, training
from fairseq_linformer.benchmark.gpus import GPUS
from fairseq_linformer.benchmark.models import PYTORCH_MODELS

from .simulated_gpu import simulate_gpu

SCRIPT_SECONDS = 8 * 60
PAGE = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
PAGE_MINUTES = re.compile(
    r"H100 takes ([\d.]+) minutes in\s+bf16 or fp16 and ([\d.]+) in fp32, and the host at most ([\d.]+)\."
)
PROVENANCE = cells.Provenance("abc", "command")
SMALL = dict(layers=2, embed_dim=64, heads=1, vocabulary=1000, device="cuda", dtype="bf16", rounds=1)


@pytest.fixture
def gpu(monkeypatch):
    """A simulated GPU; the fused optimizer has no kernel for tensors without memory."""
    monkeypatch.setattr(training, "build_optimizer", partial(torch.optim.AdamW, lr=1e-5))
    with simulate_gpu():
        yield


class CpuElements(TorchDispatchMode):
    """Finds the largest tensor that an operation returns on the CPU."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                self.largest = max(self.largest, value.numel())
        return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [
        inference.InferenceCell(64, (16, 32), tokens=128, **SMALL),
        training.TrainingCell(64, 2, PYTORCH_MODELS, 64, k=16, **SMALL),
        training.TrainingCell(64, 2, PYTORCH_MODELS, 64, k=16, memory=True, **SMALL),
    ],
    ids=lambda cell: cell.name,
)
def test_nothing_is_computed_or_counted_on_the_cpu(cell, gpu, tmp_path, monkeypatch):
    """The embeddings alone have 64,000 elements."""
    monkeypatch.setattr(inference, "forward_peak_bytes", None)
    monkeypatch.setattr(cells, "measure_peak", lambda *_: 1e15)
    with CpuElements() as cpu:
        assert cells.measure_cells([cell], tmp_path, PROVENANCE) == []
    assert cpu.largest < 1000
    measured = cells.read_cell(tmp_path / f"{cell.name}.json")["measured"]
    assert measured["failed"] == {} and len(measured.get("seconds") or measured["bytes"]) >= 3


def test_cells_are_in_order_of_importance():
    options = bare.parse(["out", "--device", "cuda"])
    found = [(cell.dtype, cell.kind, getattr(cell, "memory", None)) for cell in bare.build_cells(options)]
    part = [("inference", None)] * 8 + [("training", False)] * 4 + [("training", True)] * 4
    assert found == [(dtype, *each) for dtype in ("bf16", "fp16", "fp32") for each in part]
    assert all({128, 256} <= {*cell.dimensions} for cell in bare.build_cells(options)[:8])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_one_precision_fits_the_script(dtype, capsys, tmp_path):
    """At the lowest known share of the peak, with the attention weights that eager attention moves, and the host. fp16
    has the peak and the utilization of bf16."""
    gpus = ("h100-80gb", "h200-141gb") if dtype == "fp32" else ("h100-80gb",)  # fp32 is the slowest
    for name in gpus:
        bare.main([str(tmp_path), "--dry-run", name, "--dtype", dtype])
        *rows, last = capsys.readouterr().out.splitlines()[1:]
        assert len(rows) == 16 and last.startswith("16 cells: ") and not list(tmp_path.iterdir())
        device = sum(float(row.split()[-1]) for row in rows)
        host = 16 * cells.HOST_SECONDS
        assert device + host < SCRIPT_SECONDS
        if name == "h100-80gb":
            half, single, bound = PAGE_MINUTES.search(PAGE).groups()
            assert f"{device / 60:.1f}" == (single if dtype == "fp32" else half) and f"{host / 60:.1f}" == bound
        gpu = GPUS[name]
        assert (gpu.peak("fp16"), gpu.utilization("fp16")) == (gpu.peak("bf16"), gpu.utilization("bf16"))
        rate = 1e12 * gpu.peak(dtype) * gpu.utilization(dtype)[0]
        operations = sum(float(row.split()[1].replace(",", "")) for row in rows)
        assert device > 1e12 * operations / rate > 0.7 * device


@pytest.mark.slow
@pytest.mark.long
def test_host_of_the_largest_cell(gpu, tmp_path, monkeypatch):
    """Processor time, which hardly depends on other work. Building and counting on the CPU took 51 seconds."""
    monkeypatch.setattr(cells, "measure_peak", lambda *_: 1e15)
    (cell,) = inference.build_cells((65536,), tokens=32768, device="cuda", dtype="bf16", rounds=5, usable_gib=60.0)
    start = time.process_time()
    cells.measure_cells([cell], tmp_path, PROVENANCE)
    assert time.process_time() - start < 2 * cells.HOST_SECONDS


def test_score_bytes_of_eager_attention():
    """One round without warm-up: of 2 layers and 4 heads, in half precision."""
    options = dict(layers=2, embed_dim=64, heads=4, dtype="bf16", rounds=1, warm_up=0)
    row = inference.InferenceCell(64, (16,), tokens=128, **options)
    scores = 2 * 4 * 2 * 64**2
    assert row.score_bytes() == 2 * 4 * scores
    assert inference.InferenceCell(64, (16,), tokens=128, usable_gib=1e-6, **options).score_bytes() == 0
    step = training.TrainingCell(64, 2, ("transformer-eager",), 64, k=16, **options)
    assert step.score_bytes() == 2 * 16 * scores
    assert training.TrainingCell(64, 2, ("transformer-sdpa",), 64, k=16, **options).score_bytes() == 0


def test_rejected_predictions(tmp_path, capsys):
    for words, message in ((["--device", "cpu"], "--device cpu"), (["--dtype", "bf16"], "v100-16gb .* bf16")):
        with pytest.raises(SystemExit) as end:
            bare.main([str(tmp_path), "--dry-run", "v100-16gb", *words])
        text = end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err
        assert re.search(message, text)
