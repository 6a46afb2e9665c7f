"""The sizes of pretraining at each scale. The same code runs at every scale; only these sizes differ.

Equal at all of them: pre-norm, no dropout, RoBERTa's masking, Adam (0.9, 0.98) with weight decay 0.01,
gradients clipped to norm 1. The learning rate is constant while a model trains from scratch or grows, because a model
whose learning rate decays over a short schedule never leaves the plateau of a model without context. It decays to zero
in the comparison. A model first trains at a short n, where it leaves the plateau early, and grows by doubling n.
"""

from dataclasses import dataclass

VALID_BATCHES = 25
"""Batches of the validation split behind one point of a curve, each of twice the tokens of an update. The final
perplexity is that of the whole split."""


@dataclass(frozen=True)
class Compared:
    """What is compared.

    Attributes:
        compared_n: n of most comparisons (Figure 3 (a)).
        k_divisors: n over each k of the comparison over k (Figure 3 (a), (b)); 1 is a control: RoBERTa, until E and F
            learn.
        lengths, fixed_k: of the comparison over n (Figure 3 (d)).
        seeds: of each model.
    """

    compared_n: int
    k_divisors: tuple[int, ...]
    lengths: tuple[int, ...]
    fixed_k: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Scale(Compared):
    """What is compared, and how it is trained.

    Attributes:
        device: ``cpu`` or ``cuda``.
        layers, width, heads: of the encoder; its feed-forward layers are four times as wide.
        n: of the RoBERTa that most runs start from. Other lengths are n times a power of two.
        tokens: per update.
        lr, warmup: learning rate, and the updates in which it rises.
        base, grown, compared: updates from scratch, after each doubling of n, and in the comparison.
        validate: updates between two points of a curve, and between two checkpoints.
        bf16: whether to train in bf16 instead of fp32.
    """

    device: str
    layers: int
    width: int
    heads: int
    n: int
    tokens: int
    lr: float
    warmup: int
    base: int
    grown: int
    compared: int
    validate: int
    bf16: bool = False


SCALES: dict[str, Scale] = {
    # Shows that the code runs, in minutes, most of them Python's start: nothing is learned and no verdict follows.
    "smoke": Scale(
        device="cpu",
        layers=1,
        width=16,
        heads=2,
        n=16,
        compared_n=16,
        k_divisors=(4, 1),
        lengths=(16, 32),
        fixed_k=8,
        seeds=(1,),
        tokens=128,
        lr=1e-3,
        warmup=2,
        base=4,
        grown=2,
        compared=2,
        validate=1,
    ),
    # 2 cores: n = 16 leaves the plateau after about 1,200 updates and is 2 bits below it after 1,700; n = 64, from
    # scratch, after 3,000 to 5,000. After n is doubled, the loss recovers within 400 updates; after n is quadrupled,
    # within 1,600.
    "cpu": Scale(
        device="cpu",
        layers=2,
        width=128,
        heads=4,
        n=16,
        compared_n=64,
        k_divisors=(16, 8, 4, 2, 1),
        lengths=(64, 128, 256, 512, 1024),
        fixed_k=32,
        seeds=(1, 2, 3),
        tokens=2048,
        lr=2e-3,
        warmup=250,
        base=2000,
        grown=400,
        compared=500,
        validate=100,
    ),
    # One H100, at n and k of the paper; never run. At the 240,000 tokens per second of a distillation of this size,
    # Figure 3 (a) takes three calls of 9 minutes of scripts/gpu_figure_3.sh. With one seed no verdict follows.
    "gpu": Scale(
        device="cuda",
        layers=6,
        width=384,
        heads=6,
        n=32,
        compared_n=512,
        k_divisors=(8, 4, 2),
        lengths=(512, 1024, 2048, 4096),
        fixed_k=256,
        seeds=(1,),
        tokens=16384,
        lr=1e-3,
        warmup=500,
        base=2400,
        grown=600,
        compared=2000,
        validate=200,
        bf16=True,
    ),
}
PAPER = Compared(compared_n=512, k_divisors=(8, 4, 2), lengths=(512, 1024, 2048, 4096), fixed_k=256, seeds=(1, 2, 3))
"""The paper's scale, whose runs Slurm trains with ``configs/pretrain``."""
NAMES = ("smoke", "cpu", "encoder", "gpu", "paper")
"""All scales. ``encoder`` is that of experiments on a pretrained encoder, which have sizes of their own."""
