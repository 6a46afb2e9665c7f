"""The sizes of pretraining at each scale. The same code runs at every scale; only these sizes differ.

Equal at all scales but the paper's: pre-norm, no dropout, RoBERTa's masking, Adam (0.9, 0.98) with weight decay 0.01,
gradients clipped to norm 1. The learning rate is constant while a model trains from scratch or grows, because a model
whose learning rate decays over a short schedule never leaves the plateau of a model without context. It decays to zero
in the comparison. A model first trains at a short n, where it leaves the plateau early, and grows by doubling n.
"""

from dataclasses import dataclass

VALID_BATCHES = 25
"""Batches of the validation split behind one point of a curve, each of twice the tokens of an update. The final
perplexity is that of the whole split."""


@dataclass(frozen=True)
class Scale:
    """
    Attributes:
        device: ``cpu`` or ``cuda``.
        layers, width, heads: of the encoder; its feed-forward layers are four times as wide.
        n: of the RoBERTa that most runs start from. Other lengths are n times a power of two.
        compared_n: of most comparisons (Figure 3 (a)).
        k_divisors: n over each k of the comparison over k (Figure 3 (a), (b)); 1 is a control: RoBERTa, until E and F
            learn.
        lengths, fixed_k: of the comparison over n (Figure 3 (d)).
        seeds: of each model.
        tokens: per update.
        lr, warmup: learning rate, and the updates in which it rises.
        base, grown, compared: updates from scratch, after each doubling of n, and in the comparison.
        validate: updates between two points of a curve, and between two checkpoints.
        sentences: blocks of n tokens whose attention is analyzed (Figure 1); the paper takes 10,000.
        precision: ``fp32`` or ``bf16``.
    """

    device: str
    layers: int
    width: int
    heads: int
    n: int
    compared_n: int
    k_divisors: tuple[int, ...]
    lengths: tuple[int, ...]
    fixed_k: int
    seeds: tuple[int, ...]
    tokens: int
    lr: float
    warmup: int
    base: int
    grown: int
    compared: int
    validate: int
    sentences: int
    precision: str = "fp32"


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
        sentences=4,
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
        sentences=1000,
    ),
    # One H100, at n and k of the paper. By this estimate Figure 3 (a) takes three calls of 9 minutes of
    # scripts/gpu_figure_3.sh; it has not been run. Measured at commit 881e27a, n = 512, 32,768 tokens per update:
    # distillation of a model of this depth and width, 240,000 tokens per second; fairseq-train at base size, 298,000
    # (RoBERTa) and 415,000 (k = 128). Small matrices do not use a GPU as well, so the rate of distillation is taken:
    #     RoBERTa grows     (2,400 + 4 x 600) updates x 16,384 tokens / 240,000 per second = 328 s
    #     five models       5 x 2,000 updates x 16,384 tokens / 240,000 per second         = 683 s
    #     starts of 10 processes, validation, checkpoints, final perplexities (assumed)    = 215 s
    # The numbers of updates are assumed too. With one seed perplexities are compared, but no verdict follows.
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
        sentences=10000,
        precision="bf16",
    ),
    # Trained by Slurm with configs/pretrain, whose values these are; every run is from scratch.
    "paper": Scale(
        device="cuda",
        layers=12,
        width=768,
        heads=12,
        n=512,
        compared_n=512,
        k_divisors=(8, 4, 2),
        lengths=(512, 1024, 2048, 4096),
        fixed_k=256,
        seeds=(1, 2, 3),
        tokens=1048576,
        lr=5e-4,
        warmup=10000,
        base=250000,
        grown=0,
        compared=0,
        validate=5000,
        sentences=10000,
        precision="fp16",
    ),
}
NAMES = ("smoke", "cpu", "encoder", "gpu", "paper")
"""All scales. ``encoder`` is that of experiments on a pretrained encoder, which have sizes of their own."""
