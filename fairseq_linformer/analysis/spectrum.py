"""The spectrum of attention over many sentences: Figure 1 of the paper, for any encoder.

    L layers, H heads, n tokens per sentence, m columns of a map (n, or k' projected positions of a Linformer),
    r = min(n, m) singular values

The paper, section 3: "we apply singular value decomposition into P across different layers and different heads of the
model, and plot the normalized cumulative singular value averaged over 10k sentences".
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import Dim, format_projected_dim
from ..files import open_atomic
from ..progress import progress_bar
from .attention_model import AttentionModel

_SAVE_INTERVAL = 30.0
"""Seconds."""


@dataclass(frozen=True)
class Spectrum:
    """The spectrum of a model's attention on a text: means over its sentences.

    Attributes:
        curve: (L, H, r) normalized cumulative singular values.
        name: of model and text, for figures.
    """

    name: str
    n: int
    sentences: int
    curve: np.ndarray

    @property
    def index(self) -> int:
        """The index of the heat map's singular value, from 1: a quarter of them, like the paper's 128 of 512."""
        return max(1, self.curve.shape[-1] // 4)

    @property
    def heat(self) -> np.ndarray:
        """(L, H): the mean normalized cumulative singular value at ``index``, as in Figure 1 (right)."""
        return self.curve[..., self.index - 1]

    @property
    def layers(self) -> np.ndarray:
        """(L, r): the curve of each layer, mean over heads, as in Figure 1 (left)."""
        return self.curve.mean(1)

    def suggest_projected_dim(self, share: float) -> dict[str, int | str]:
        """The suggested value of ``--projected-dim`` for each kind of sharing: the smallest k at which the mean curve
        reaches ``share``. ``none`` has a k per head. Where heads or layers share a matrix, k is the largest that any
        of them needs."""
        ks = np.minimum((self.curve < share).sum(-1) + 1, self.curve.shape[-1])  # (L, H)
        heads: list[Dim] = [int(row[0]) if len(set(row)) == 1 else tuple(map(int, row)) for row in ks]
        per_layer = format_projected_dim([int(k) for k in ks.max(1)])
        shared = {"headwise": per_layer, "key-value": per_layer, "layerwise": int(ks.max())}
        return {"none": format_projected_dim(heads), **shared}


def cumulative_shares(maps: Tensor) -> Tensor:
    """Normalized cumulative singular values, largest first, in double precision: (..., n, m) to (..., r), increasing to
    1. The singular values themselves are computed in the precision of the maps."""
    sums = torch.linalg.svdvals(maps).double().cumsum(-1)
    return sums / sums[..., -1:]


def measure_spectrum(
    model: AttentionModel, sentences: Iterable[list[int]], number: int, n: int, text: str, state: Path | None = None
) -> Spectrum:
    """The mean curves of the first ``number`` sentences of n tokens, or of all if there are fewer.

    Args:
        text: its name.
        state: file of the sums so far, written every 30 seconds, from which a rerun with the same inputs resumes.
    """
    path = Path(model.name)
    # A checkpoint with its folder, since file names repeat.
    model_name = "/".join(path.absolute().parts[-2:]) if path.is_file() else path.name
    name, saved = f"{model_name} on {text}", time.monotonic()
    sums, done = _read_state(state)
    with progress_bar("spectrum", number, "sentence", initial=done) as progress:
        for sentence in islice(sentences, done, number):
            maps = model.read_maps(torch.tensor([sentence]))
            if not all(bool(each.isfinite().all()) for each in maps):
                raise ValueError(f"the attention of {model.name} is NaN or infinite; its weights are damaged")
            curves = [cumulative_shares(each)[0].cpu() for each in maps]
            longest = max(curve.size(-1) for curve in curves)  # layers with shifted windows may reach one k' more
            curves = [F.pad(curve, (0, longest - curve.size(-1)), value=1.0) for curve in curves]
            sums, done = sums + torch.stack(curves).numpy(), done + 1
            progress.update(1)
            if state is not None and time.monotonic() - saved > _SAVE_INTERVAL:
                with open_atomic(state, "wb") as file:
                    np.savez(file, sums=sums, done=np.array(done))
                saved = time.monotonic()
    if not done:
        raise ValueError(f"{text} has no sentence of {n} tokens; use more text, or fewer tokens per sentence")
    return Spectrum(name, n, done, sums / done)


def _read_state(path: Path | None) -> tuple[np.ndarray, int]:
    if path is not None and path.exists():
        with np.load(path) as state:
            return state["sums"], int(state["done"])
    return np.zeros(()), 0
