"""The sizes of a reproduction. The same code runs at every scale; only what stands here differs.

What is equal at all scales: pre-norm, no dropout, masks as RoBERTa's, Adam (0.9, 0.98) with weight decay 0.01, gradients clipped
to 1; a constant rate where a model learns from scratch or grows, since one that decays over a short schedule never leaves the plateau
of a model without context; a rate that goes to zero in the comparison itself. A model learns at a short n, where the plateau is soon
left, and grows by doubling n.
"""

from dataclasses import dataclass
from typing import Dict, Tuple


VALID_BATCHES = 25
"""Of the validation split, each of twice the tokens of an update, for a point of a curve. What is compared in the end is measured on all of it."""


@dataclass(frozen=True)
class Table2:
    """Of one RoBERTa that is pretrained, of the Linformers that it is converted to, and of what they are finetuned with.

    Attributes:
        stages: n and updates, from scratch and then growing; the last n is that of RoBERTa.
        last: updates of each model after that, with the rate going to zero.
        lr: of all.
        linformers: n, which is that of RoBERTa or twice it, k and sharing of each. The first is finetuned without pretraining too, as is RoBERTa.
        rate, batch_size: of finetuning.
        epochs: of finetuning, by task.
    """

    stages: Tuple[Tuple[int, int], ...]
    last: int
    lr: float
    linformers: Tuple[Tuple[int, int, str], ...]
    rate: float
    batch_size: int
    epochs: Dict[str, int]


@dataclass(frozen=True)
class Scale:
    """
    Attributes:
        why: these sizes, in a sentence.
        device: ``cpu`` or ``gpu``.
        layers, width, heads: of the encoder; its feed-forward part is four times as wide.
        n: of the base, the RoBERTa that everything but ``scratch`` starts from; the lengths below are it times powers of two.
        figure_3a, figure_3b: n.
        lengths, k: of Figure 3 (d): every n, and the k that stays.
        seeds: of each model.
        tokens: of an update.
        lr, warmup: rate, and updates in which it rises.
        base, grown, compared: updates from scratch; after each doubling of n; and of the comparison.
        validate: updates between two points of a curve, and between two checkpoints; a point is of the first ``VALID_BATCHES``.
        table_2: what Table 2 wants besides.
        precision: ``fp32`` or ``bf16``.
    """

    why: str
    device: str
    layers: int
    width: int
    heads: int
    n: int
    figure_3a: int
    figure_3b: int
    lengths: Tuple[int, ...]
    k: int
    seeds: Tuple[int, ...]
    tokens: int
    lr: float
    warmup: int
    base: int
    grown: int
    compared: int
    validate: int
    table_2: Table2
    precision: str = "fp32"


SCALES: Dict[str, Scale] = {
    "smoke": Scale(
        "that the code runs, in minutes, most of which is the start of Python: nothing is learnt, and no verdict comes of it",
        device="cpu", layers=1, width=16, heads=2, n=16, figure_3a=16, figure_3b=32, lengths=(16, 32), k=8, seeds=(1,),
        tokens=128, lr=1e-3, warmup=2, base=6, grown=3, compared=4, validate=2,
        table_2=Table2(((8, 3), (16, 3)), 4, 1e-3, ((16, 8, "headwise"),), 1e-3, 8, {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 1}),
    ),
    "cpu": Scale(
        "2 cores: n = 16 leaves the plateau after about 1,200 updates and is 2 bits below it after 1,700; n = 64, from scratch, after 3,000 to 5,000. "
        "400 updates after a doubling of n the loss is what it was; n four times as long takes 1,600 to come near",
        device="cpu", layers=2, width=128, heads=4, n=16, figure_3a=64, figure_3b=128, lengths=(64, 128, 256, 512, 1024), k=32, seeds=(1, 2, 3),
        tokens=2048, lr=2e-3, warmup=250, base=2000, grown=400, compared=500, validate=100,
        table_2=Table2(
            ((16, 2000), (32, 400), (64, 4000), (128, 5000)), 1500, 2e-3,
            tuple((128, k, sharing) for k in (64, 32) for sharing in ("headwise", "key-value", "layerwise")) + ((256, 64, "headwise"),),
            5e-4, 32, {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 2},
        ),
    ),
    "gpu": Scale(
        "base size on one large GPU, at the paper's own n and k: grown from n = 128, where 10,000 updates should leave the plateau (assumed, not measured)",
        device="gpu", layers=12, width=768, heads=12, n=128, figure_3a=512, figure_3b=1024, lengths=(512, 1024, 2048, 4096), k=256, seeds=(1, 2, 3),
        tokens=32768, lr=5e-4, warmup=500, base=10000, grown=1000, compared=2000, validate=250, precision="bf16",
        table_2=Table2(
            ((128, 20000), (256, 1000), (512, 4000)), 2000, 5e-4,
            tuple((512, k, sharing) for k in (256, 128) for sharing in ("headwise", "key-value", "layerwise")) + ((1024, 256, "headwise"),),
            2e-5, 32, {"sst-2": 3, "imdb": 3, "qnli": 3, "qqp": 3},
        ),
    ),
}  # fmt: skip
NAMES = (*SCALES, "paper")


def scale_of(name: str) -> Scale:
    """
    Raises:
        ValueError: there is none of this name whose sizes stand here.
    """
    if name not in SCALES:
        raise ValueError(f"--scale is {name}, which has no sizes here; {', '.join(SCALES)} have")
    return SCALES[name]
