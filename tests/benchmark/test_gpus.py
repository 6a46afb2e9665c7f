"""GPUs: data sheet values, and shares of the peak computed from publications."""

import pytest

from fairseq_linformer.benchmark.gpus import GPUS, find_gpu


def test_gpus_equal_their_data_sheets():
    """GiB, TFLOPS in fp16 and fp32, GB/s of the memory, GB/s of NVLink in one direction, Gbit/s of a DGX."""
    sheets = {
        "v100": (125, 15.7, 900, 150, 400),
        "a100": (312, 19.5, None, 300, 1600),
        "h100": (989, 67, 3350, 450, 3200),
        "h200": (989, 67, 4800, 450, 3200),
    }
    for name, gpu in GPUS.items():
        kind, memory = name.split("-")
        half, single, bandwidth, link, network = sheets[kind]
        assert (gpu.half_tflops, gpu.single_tflops, gpu.link, gpu.network) == (half, single, link, network)
        assert gpu.bandwidth == (bandwidth or {"40gb": 1555, "80gb": 2039}[memory])
        assert f"{gpu.memory:g}gb" == memory and gpu.bf16 == (kind != "v100")


@pytest.mark.parametrize("name, tokens", [("a100-40gb", 156_735), ("a100-80gb", 165_681)])
def test_highest_share_of_a100(name, tokens):
    """MPT-125M, n = 512, with the operations per token as llm-foundry counts them."""
    operations = 6 * 124_131_840 + 12 * 12 * 768 * 512
    assert tokens * operations / 312e12 == pytest.approx(GPUS[name].half_utilization[1], rel=0.03)


def test_slowest_link():
    v100 = GPUS["v100-16gb"]
    assert v100.slowest_link(8) == pytest.approx(120e9) and v100.slowest_link(16) == pytest.approx(40e9)


def test_unknown_gpu_is_rejected():
    with pytest.raises(ValueError, match="v200.*h200-141gb"):
        find_gpu("v200")
