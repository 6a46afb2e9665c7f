"""GPUs: data sheet values, and utilization computed from publications."""

import pytest

from fairseq_linformer.benchmark.formulas import Batch, PlannedModel, step_flops
from fairseq_linformer.benchmark.gpus import GPUS, SINGLE_UTILIZATION, find_gpu
from fairseq_linformer.config import LinformerConfig

HOUR = 3600
A100, H100 = GPUS["a100-80gb"], GPUS["h100-80gb"]


def sequence_flops(layers, width, n, masked, vocabulary):
    """Operations of a training step of a Transformer per sequence."""
    shape = LinformerConfig(
        vocabulary, n, 1, layers=layers, embed_dim=width, ffn_embed_dim=4 * width, attention_heads=width // 64
    )
    step = step_flops(PlannedModel(shape, linear=False), Batch(1, n, masked), fused=False)
    return step.forward + step.backward


def teraflops(name, precision="fp16"):
    """Operations per second at the slowest and the fastest utilization."""
    gpu = GPUS[name]
    return tuple(1e12 * gpu.peak(precision) * share for share in gpu.utilization(precision))


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


def test_utilization_on_v100():
    """RoBERTa-large in a day on 1,024 GPUs; BERT-large on one, in half precision and in fp32."""
    roberta = sequence_flops(24, 1024, 512, 77, 50265)
    bert = sequence_flops(24, 1024, 512, 80, 30522)
    slowest = 100_000 * 8192 * roberta / (1024 * 24 * HOUR)
    for name, rate, single_rate in (("v100-16gb", 26.64, 7.56), ("v100-32gb", 30.08, 8.36)):
        assert teraflops(name) == pytest.approx((slowest, rate * bert), rel=0.06)
        single = single_rate * bert / 15.7e12
        assert any(single == pytest.approx(share, rel=0.01) for share in SINGLE_UTILIZATION)


def test_utilization_on_a100_and_h100():
    """BERT-base of ``transformers``, scaled where it was not measured; MPT, whose head computes all positions."""
    slowest = 286_720_000 * sequence_flops(12, 768, 128, 19, 30522) / (8 * 11.5 * HOUR)
    for name, fastest in (
        ("a100-40gb", 156_735 * mpt_flops(124_131_840, 12, 768)),
        ("a100-80gb", 165_681 * mpt_flops(124_131_840, 12, 768)),
        ("h100-80gb", 142_370 * mpt_flops(354_412_544, 24, 1024)),
        ("h200-141gb", 142_370 * mpt_flops(354_412_544, 24, 1024)),
    ):
        scaled = slowest * GPUS[name].bandwidth / A100.bandwidth
        assert teraflops(name) == pytest.approx((scaled, fastest), rel=0.03)


def mpt_flops(parameters, layers, width, n=512):
    """Operations per token as llm-foundry counts them."""
    return 6 * parameters + 12 * layers * width * n


def test_modernbert_is_within_the_range_of_h100():
    """22 layers of 768 with a gated feed-forward of 1,152; every third attends to all 1,024 positions, the others to
    129; 30 % of the tokens are masked."""
    d, n = 768, 1024
    maps = 22 * (4 * d * d + 3 * d * 1152)
    attended = 2 * d * (8 * n + 14 * 129)
    forward = 2 * (maps + attended + 0.3 * d * (d + 50_368))
    found = 3 * forward * 1.719e12 / (8 * 194 * HOUR)
    slowest, fastest = teraflops("h100-80gb")
    assert slowest < found < fastest and found == pytest.approx(0.26 * 1e12 * H100.half_tflops, rel=0.02)


def test_unknown_gpu_is_rejected():
    with pytest.raises(ValueError, match="v200.*h200-141gb"):
        find_gpu("v200")
