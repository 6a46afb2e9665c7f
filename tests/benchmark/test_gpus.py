"""GPUs: their names, and the slowest of their links."""

import pytest

from fairseq_linformer.benchmark.gpus import GPUS, data_sheet_peak


def test_peak_by_the_name_of_a_gpu():
    assert data_sheet_peak("NVIDIA H100 80GB HBM3", "bf16") == 989e12
    assert data_sheet_peak("NVIDIA A100", "fp32") == 19.5e12
    assert data_sheet_peak("another", "fp32") is None
    assert data_sheet_peak("NVIDIA H100 PCIe", "bf16") is None  # the table has the board that is faster


def test_slowest_link():
    v100 = GPUS["v100-16gb"]
    assert v100.slowest_link(8) == pytest.approx(120e9) and v100.slowest_link(16) == pytest.approx(40e9)
