"""GPUs: data sheet values, and shares of the peak computed from publications."""

import pytest

from fairseq_linformer.benchmark.gpus import GPUS, data_sheet_peak


def test_gpus_equal_their_data_sheets():
    """GiB, TFLOPS in fp16 and fp32, GB/s of NVLink in one direction, Gbit/s of a DGX."""
    sheets = {
        "v100": (125, 15.7, 150, 400),
        "a100": (312, 19.5, 300, 1600),
        "h100": (989, 67, 450, 3200),
        "h200": (989, 67, 450, 3200),
    }
    for name, gpu in GPUS.items():
        kind, memory = name.split("-")
        assert (gpu.half_tflops, gpu.single_tflops, gpu.link, gpu.network) == sheets[kind]
        assert f"{gpu.memory:g}gb" == memory and gpu.bf16 == (kind != "v100")


def test_peak_by_the_name_of_a_gpu():
    assert data_sheet_peak("NVIDIA H100 80GB HBM3", "bf16") == 989e12
    assert data_sheet_peak("NVIDIA A100", "fp32") == 19.5e12
    assert data_sheet_peak("another", "fp32") is None
    assert data_sheet_peak("NVIDIA H100 PCIe", "bf16") is None  # the table has the board that is faster


@pytest.mark.parametrize("name, tokens", [("a100-40gb", 156_735), ("a100-80gb", 165_681)])
def test_highest_share_of_a100(name, tokens):
    """MPT-125M, n = 512, with the operations per token as llm-foundry counts them."""
    operations = 6 * 124_131_840 + 12 * 12 * 768 * 512
    assert tokens * operations / 312e12 == pytest.approx(GPUS[name].half_utilization[1], rel=0.03)


def test_slowest_link():
    v100 = GPUS["v100-16gb"]
    assert v100.slowest_link(8) == pytest.approx(120e9) and v100.slowest_link(16) == pytest.approx(40e9)
