"""GPUs: data sheet values, and the shares of the peak that training reaches.

The share is the operations of a step's matrix products per second over those of the GPU's data sheet. Of an H100 it is
measured with this package; of others it is the slowest and the fastest publication of a similar model:

    [h100]    0.18: RoBERTa-base in ``fairseq-train --fp16``, n = 512, 64 sequences per batch, 298,000 tokens per
              second. 0.26: a training step of the benchmark (results/speed/gpu.json). An H200, with the same peak, is
              ASSUMED to be equal.
    [liu]     Liu et al. 2019, "RoBERTa", section 5: RoBERTa-large, fairseq, 1,024 V100 of 32 GB, 100,000 updates of
              8,192 sequences of 512 in "approximately one day": 1.03e12 operations per sequence, so 9.53 of 125 TFLOPS.
              This includes communication over a network that is not described.
    [nvidia]  NVIDIA DeepLearningExamples, PyTorch BERT, README of 2020: BERT-large, n = 512, one V100 of a DGX-1, in
              mixed precision 26.64 (16 GB) and 30.08 (32 GB) sequences per second, in fp32 7.56 and 8.36.
    [bert]    MosaicML examples, README and YAML of hf-bert-base-uncased: BERT-base of transformers, bf16, without fused
              attention, 286,720,000 sequences of 128 in 11.5 hours on 8 A100 of 80 GB. On 40 GB as it would be there
              if all its time were memory traffic: 0.19 times the ratio of the bandwidths.
    [foundry] MosaicML llm-foundry, scripts/train/benchmarking/README.md: MPT-125M, n = 512, 8 A100, 165,681 (80 GB) and
              156,735 (40 GB) tokens per second and GPU, where the operations include the output embeddings at all
              positions.
"""

from dataclasses import dataclass

GIB = 2**30

USABLE, RESERVED = 0.95, 1.0
"""ASSUMED: the share of memory that the caching allocator can fill (the rest is fragmented), and the GiB that the
driver, CUDA and NCCL reserve."""
LINK_SHARE = 0.8
"""ASSUMED: the share of the bandwidth of links and network that an all-reduce of large buckets reaches."""
GPUS_PER_NODE = 8
SINGLE_UTILIZATION = (0.49, 0.54)
"""Shares in fp32, from [nvidia] on V100 of 16 and 32 GB; ASSUMED for all GPUs. They are higher than in half precision,
because the peak is lower relative to the memory bandwidth."""


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
    link: float
    """NVLink bandwidth, 10^9 bytes per second and direction: half of the data sheet's sum of both directions."""
    network: float
    """Network bandwidth of a node, 10^9 bits per second and direction."""
    bf16: bool
    half_utilization: tuple[float, float]
    """Lowest and highest known share of the peak in half precision."""

    def peak(self, precision: str) -> float:
        """Peak of dense matrix products in ``fp32`` or another precision, 10^12 operations per second."""
        return self.single_tflops if precision == "fp32" else self.half_tflops

    def utilization(self, precision: str) -> tuple[float, float]:
        """Lowest and highest known share of ``peak``; see the top of this file."""
        return SINGLE_UTILIZATION if precision == "fp32" else self.half_utilization

    @property
    def usable(self) -> float:
        """Bytes available to tensors."""
        return (USABLE * self.memory - RESERVED) * GIB

    def slowest_link(self, gpus: int) -> float:
        """Bytes per second of the slowest link in a ring of ``gpus`` GPUs."""
        return LINK_SHARE * (self.link * 1e9 if gpus <= GPUS_PER_NODE else min(self.link, self.network / 8) * 1e9)


# NVIDIA's data sheets of the SXM boards (H100, H200: half of the figures with sparsity), and of the DGX (network).
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-16gb", 16, 125, 15.7, 150, 400, False, (0.08, 0.22)),  # [liu], [nvidia]
        Gpu("v100-32gb", 32, 125, 15.7, 150, 400, False, (0.08, 0.25)),  # [liu], [nvidia]
        Gpu("a100-40gb", 40, 312, 19.5, 300, 1600, True, (0.15, 0.40)),  # [bert], [foundry]
        Gpu("a100-80gb", 80, 312, 19.5, 300, 1600, True, (0.19, 0.43)),  # [bert], [foundry]
        Gpu("h100-80gb", 80, 989, 67, 450, 3200, True, (0.18, 0.26)),  # [h100]
        Gpu("h200-141gb", 141, 989, 67, 450, 3200, True, (0.18, 0.26)),  # [h100]
    )
}


def data_sheet_peak(name: str, precision: str) -> float | None:
    """Peak operations per second of a GPU by PyTorch's name for it; None if it is not in the table, which has SXM
    boards only: PCIe cards with the same chips are slower."""
    if "pcie" in name.lower() or "nvl" in name.lower():
        return None
    gpu = next((gpu for gpu in GPUS.values() if gpu.name.split("-")[0] in name.lower()), None)
    return None if gpu is None else 1e12 * gpu.peak(precision)
