"""GPUs to plan for: data sheet values, and the shares of them that training reaches.

Utilization is the share of the peak in matrix products that a model's operations reach while a GPU computes
(``benchmark/flops.py``). No run of this package has measured it, so it is a range for each GPU: the slowest and the
fastest published training of a similar model. Each is computed as

    operations per second and GPU / peak        operations of a sequence: formulas.step_flops, without fused attention

from the published throughput (``tests/training/test_gpus.py`` repeats the arithmetic):

    [liu]     Liu et al. 2019, "RoBERTa", section 5: RoBERTa-large, fairseq, 1,024 V100 of 32 GB, 100,000 updates of
              8,192 sequences of 512 in "approximately one day": 1.03e12 operations per sequence, so 9.53 of 125 TFLOPS.
              This includes communication over a network that is not described.
    [nvidia]  NVIDIA DeepLearningExamples, PyTorch BERT, README of 2020: BERT-large, n = 512, one V100 of a DGX-1, in
              mixed precision 26.64 (16 GB) and 30.08 (32 GB) sequences per second, in fp32 7.56 and 8.36.
    [bert]    MosaicML examples, README and YAML of hf-bert-base-uncased: BERT-base of transformers, bf16, without fused
              attention, 286,720,000 sequences of 128 in 11.5 hours on 8 A100 of 80 GB.
    [foundry] MosaicML llm-foundry, scripts/train/benchmarking: README.md, MPT-125M, n = 512, 8 A100, 165,681 (80 GB),
              156,735 (40 GB) tokens per second and GPU; h100.md, MPT-350M, n = 512, 8 H100, 142,370. Their operations
              include the output embeddings at all positions.

For A100 of 40 GB, H100 and H200 the slowest is [bert] as it would be there if all its time were memory traffic: its
0.19, times the ratio of the bandwidths, over the ratio of the peaks. ModernBERT-base (Warner et al. 2024, table 3:
1.719e12 tokens in 194 hours on 8 H100, with fused and compiled layers) reached 0.26. H200 is ASSUMED to be at best as
good as H100, which has the same peak.
"""

from dataclasses import dataclass

GIB = 2**30

USABLE, RESERVED = 0.95, 1.0
"""ASSUMED: the share of memory that the caching allocator can fill (the rest is fragmented), and the GiB that the
driver, CUDA and NCCL reserve."""
LINK_SHARE = 0.8
"""ASSUMED: the share of the bandwidth of links and network that an all-reduce of large buckets reaches."""
LATENCY = 10e-6
"""ASSUMED: seconds that an empty message between two GPUs takes over the network."""
GPUS_PER_NODE = 8
SINGLE_UTILIZATION = (0.49, 0.54)
"""Utilization in fp32, from [nvidia] on V100 of 16 and 32 GB; ASSUMED for all GPUs. It is higher than in half
precision, because the peak is lower relative to the memory bandwidth."""


@dataclass(frozen=True)
class Gpu:
    """A GPU type, in nodes of eight (the NVIDIA DGX of its generation)."""

    name: str
    memory: float
    """GiB."""
    half_tflops: float
    """Peak of dense matrix products in fp16 (and bf16, if supported), 10^12 operations per second."""
    single_tflops: float
    """Peak in fp32 without TF32, which is off in PyTorch by default, 10^12 operations per second."""
    bandwidth: float
    """Memory bandwidth, 10^9 bytes per second."""
    link: float
    """NVLink bandwidth, 10^9 bytes per second and direction: half of the data sheet's sum of both directions."""
    network: float
    """Network bandwidth of a node, 10^9 bits per second and direction."""
    bf16: bool
    source: str
    """Of the data sheet values."""
    half_utilization: tuple[float, float]
    """Slowest and fastest published utilization in half precision."""
    utilization_sources: tuple[str, str]
    """Models, GPUs and publications of both."""

    def peak(self, precision: str) -> float:
        """Peak of dense matrix products, 10^12 operations per second."""
        return self.single_tflops if precision == "fp32" else self.half_tflops

    def utilization(self, precision: str) -> tuple[float, float]:
        """Slowest and fastest published share of ``peak``; see the top of this file."""
        return SINGLE_UTILIZATION if precision == "fp32" else self.half_utilization

    def sources(self, precision: str) -> tuple[str, ...]:
        """Where ``utilization`` was published."""
        return (f"{_NVIDIA}, fp32",) if precision == "fp32" else self.utilization_sources

    @property
    def usable(self) -> float:
        """Bytes available to tensors."""
        return (USABLE * self.memory - RESERVED) * GIB

    def slowest_link(self, gpus: int, network: float | None = None) -> float:
        """Bytes per second of the slowest link in a ring of ``gpus`` GPUs.

        Args:
            network: bandwidth of a node, 10^9 bits per second; None for that of the DGX.
        """
        links = [self.link * 1e9]
        if gpus > GPUS_PER_NODE:
            links.append((self.network if network is None else network) * 1e9 / 8)
        return LINK_SHARE * min(links)


_V100 = "NVIDIA V100 data sheet (SXM2); DGX-1 data sheet: 4 x 100 Gbit/s"
_A100 = "NVIDIA A100 data sheet (SXM); DGX A100 data sheet: 8 x 200 Gbit/s"
_H100 = "NVIDIA H100 data sheet (SXM; half of the figure with sparsity); DGX H100 data sheet: 8 x 400 Gbit/s"
_H200 = "NVIDIA H200 data sheet (SXM; half of the figure with sparsity); DGX H200 data sheet: 8 x 400 Gbit/s"
_LIU = "RoBERTa-large on 1,024 V100 (Liu et al. 2019)"
_NVIDIA = "BERT-large on one V100 (NVIDIA DeepLearningExamples)"
_BERT = "BERT-base on 8 A100 (MosaicML examples)"
_SCALED = f"{_BERT}, scaled by the memory bandwidth"
_FOUNDRY = "{} on 8 {} (MosaicML llm-foundry)"
_MPT_A100, _MPT_H100 = _FOUNDRY.format("MPT-125M", "A100"), _FOUNDRY.format("MPT-350M", "H100")
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-16gb", 16, 125, 15.7, 900, 150, 400, False, _V100, (0.08, 0.22), (_LIU, _NVIDIA)),
        Gpu("v100-32gb", 32, 125, 15.7, 900, 150, 400, False, _V100, (0.08, 0.25), (_LIU, _NVIDIA)),
        Gpu("a100-40gb", 40, 312, 19.5, 1555, 300, 1600, True, _A100, (0.15, 0.40), (_SCALED, _MPT_A100)),
        Gpu("a100-80gb", 80, 312, 19.5, 2039, 300, 1600, True, _A100, (0.19, 0.43), (_BERT, _MPT_A100)),
        Gpu("h100-80gb", 80, 989, 67, 3350, 450, 3200, True, _H100, (0.10, 0.33), (_SCALED, _MPT_H100)),
        Gpu("h200-141gb", 141, 989, 67, 4800, 450, 3200, True, _H200, (0.14, 0.33), (_SCALED, _MPT_H100)),
    )
}


def find_gpu(name: str) -> Gpu:
    """
    Raises:
        ValueError: no GPU has that name.
    """
    if name not in GPUS:
        raise ValueError(f"unknown GPU {name!r}; choose from {', '.join(GPUS)}")
    return GPUS[name]
