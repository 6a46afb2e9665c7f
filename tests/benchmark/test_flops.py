"""Known operations, and the peaks of known GPUs."""

import pytest
import torch

from fairseq_linformer.benchmark.flops import count_flops, data_sheet_peak, measure_peak, utilization


def test_flops_and_peaks():
    a, b = torch.randn(30, 40), torch.randn(40, 50)
    assert count_flops(lambda: a @ b) == 2 * 30 * 40 * 50
    assert utilization(6e12, 2.0, 10e12) == 0.3
    with pytest.raises(ValueError, match="above 0"):
        utilization(1.0, 0.0, 1.0)
    assert (
        data_sheet_peak("NVIDIA H100 80GB HBM3", torch.bfloat16) == 989e12
        and data_sheet_peak("NVIDIA A100", torch.float32) == 19.5e12
    )
    assert data_sheet_peak("another", torch.float32) is None and measure_peak(size=64) > 0
    assert data_sheet_peak("NVIDIA H100 PCIe", torch.bfloat16) is None  # the table has the board that is faster
