"""GPUs to plan for: data sheet values, and the share of them that a run is assumed to reach."""

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
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-16gb", 16, 125, 15.7, 900, 150, 400, False, _V100),
        Gpu("v100-32gb", 32, 125, 15.7, 900, 150, 400, False, _V100),
        Gpu("a100-40gb", 40, 312, 19.5, 1555, 300, 1600, True, _A100),
        Gpu("a100-80gb", 80, 312, 19.5, 2039, 300, 1600, True, _A100),
        Gpu("h100-80gb", 80, 989, 67, 3350, 450, 3200, True, _H100),
        Gpu("h200-141gb", 141, 989, 67, 4800, 450, 3200, True, _H200),
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
