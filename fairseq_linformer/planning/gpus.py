"""GPUs to plan for: what the vendor's data sheets say, and the share of it that a run is assumed to get."""

from dataclasses import dataclass
from typing import Optional

GIB = 2**30

USABLE, RESERVED = 0.95, 1.0
"""ASSUMED: the share of the memory that the caching allocator can fill (the rest is fragments), and the GiB
that driver, CUDA and NCCL take first."""
LINK_SHARE = 0.8
"""ASSUMED: of the bandwidth of links and network, what an all-reduce of large buckets gets."""
LATENCY = 10e-6
"""ASSUMED: seconds from one GPU to another for a message without content, over the network."""
GPUS_OF_NODE = 8


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU, in nodes of eight (NVIDIA's DGX of its generation)."""

    name: str
    memory: float
    """GiB."""
    half: float
    """Peak of dense matrix products in fp16, in 10^12 operations a second. bf16 is as fast, where there is bf16."""
    single: float
    """The same in fp32, without TF32, which is off in PyTorch by default."""
    bandwidth: float
    """Of the memory, 10^9 bytes a second."""
    link: float
    """NVLink, 10^9 bytes a second from a GPU: half of what the data sheet adds up for both directions."""
    network: float
    """Of a node, 10^9 bits a second in each direction."""
    bf16: bool
    source: str

    @property
    def usable(self) -> float:
        """Bytes that tensors can have."""
        return (USABLE * self.memory - RESERVED) * GIB

    def slowest_link(self, gpus: int, network: Optional[float] = None) -> float:
        """Bytes a second of the slowest link in a ring of ``gpus`` GPUs.

        Args:
            network: 10^9 bits a second of a node, if they are not those of its DGX.
        """
        links = [self.link * 1e9]
        if gpus > GPUS_OF_NODE:
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


def gpu_of(name: str) -> Gpu:
    """
    Raises:
        ValueError: there is none with that name.
    """
    if name not in GPUS:
        raise ValueError(f"the GPU is {name!r}; it must be one of {', '.join(GPUS)}")
    return GPUS[name]
