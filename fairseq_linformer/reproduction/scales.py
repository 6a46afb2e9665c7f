"""The sizes of pretraining at each scale. The same code runs at every scale; only these sizes differ.

Equal at all of them: pre-norm, no dropout, RoBERTa's masking, Adam (0.9, 0.98) with weight decay 0.01,
gradients clipped to norm 1. The learning rate is constant while a model trains from scratch or grows, because a model
whose learning rate decays over a short schedule never leaves the plateau of a model without context. It decays to zero
before models are compared.
"""

from dataclasses import dataclass

VALID_BATCHES = 25
"""Batches of the validation split behind one point of a curve, each of twice the tokens of an update. The final
perplexity is that of the whole split."""


@dataclass(frozen=True)
class Sizes:
    """How models are pretrained.

    Attributes:
        device: ``cpu`` or ``cuda``.
        layers, width, heads: of the encoder; its feed-forward layers are four times as wide.
        tokens: per update.
        lr, warmup: learning rate, and the updates in which it rises.
        validate: updates between two points of a curve, and between two checkpoints.
        seeds: of each model.
        bf16: whether to train in bf16 instead of fp32.
    """

    device: str
    layers: int
    width: int
    heads: int
    tokens: int
    lr: float
    warmup: int
    validate: int
    seeds: tuple[int, ...]
    bf16: bool = False


@dataclass(frozen=True, kw_only=True)
class Scale(Sizes):
    """How models are pretrained that start from a RoBERTa, which first trains at a short n, where it leaves the plateau
    early, and grows by doubling n.

    Attributes:
        n: of this RoBERTa at first.
        base, grown, compared: updates from scratch, after each doubling of n, and in the comparison.
        compared_n: n of most comparisons.
    """

    n: int
    base: int
    grown: int
    compared: int
    compared_n: int


SCALES: dict[str, Scale] = {
    # Shows that the code runs, in minutes, most of them Python's start: nothing is learned and no verdict follows.
    "smoke": Scale(
        device="cpu",
        layers=1,
        width=16,
        heads=2,
        n=16,
        compared_n=16,
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
        seeds=(1, 2, 3),
        tokens=2048,
        lr=2e-3,
        warmup=250,
        base=2000,
        grown=400,
        compared=500,
        validate=100,
    ),
}
NAMES = ("smoke", "cpu", "encoder", "gpu", "paper")
"""All scales. ``encoder`` is that of experiments on a pretrained encoder, which have sizes of their own."""
