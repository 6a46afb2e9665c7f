"""The spectrum of attention over many sentences: Figure 1 of the paper, of any encoder.

    B sentences of a batch, L layers, H heads, n tokens of a sentence, r singular values of a map: n, or min(n, k) of a
    Linformer

Sums of the normalised cumulative singular values (``singular.py``) are kept for each layer, head and index, and no map
is: memory does not grow with the number of sentences. A sentence shorter than n (where those are padded) counts with
the block of its real tokens: its curve is 1 from its own length on.
"""

import json
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..files import atomic
from ..progress import Progress
from .attention_model import AttentionModel
from .singular import cumulative, longer_side, rank, singular_values, without_padding
from .texts import Sentences

STATE = "state.npz"
TOLERANCE = 1e-3
"""How far a curve in single precision may be from the one in double precision."""
_SAVE_EVERY = 30.0
"""Seconds."""


@dataclass
class Sums:
    """Sums over the sentences so far, in double precision.

    Attributes:
        curve, curve_squares, energy: (L, H, n), of the normalised cumulative singular values, their squares (for the
            deviation), and the normalised cumulative squared singular values.
        ranks, rank_least, rank_most: (L, H), of numerical ranks.
        values: r, the most singular values seen; beyond them curves are 1.
        checked, difference: sentences that were computed in double precision too, and the largest difference of a
            curve.
    """

    curve: np.ndarray
    curve_squares: np.ndarray
    energy: np.ndarray
    ranks: np.ndarray
    rank_least: np.ndarray
    rank_most: np.ndarray
    values: int = 0
    sentences: int = 0
    checked: int = 0
    difference: float = 0.0
    seconds: float = 0.0

    @classmethod
    def empty(cls, layers: int, heads: int, n: int) -> "Sums":
        long, short = (layers, heads, n), (layers, heads)
        return cls(*(np.zeros(long) for _ in range(3)), np.zeros(short), np.full(short, np.inf), np.zeros(short))

    def add(self, layer: int, maps: Tensor) -> Tensor:
        """Add a layer's maps (B, H, n', m), which are ``without_padding``. The caller counts the sentences.

        Returns:
            (B, H, r): their curves.
        """
        values = singular_values(maps)
        curve = cumulative(values)
        beyond = (0, self.curve.shape[-1] - curve.size(-1))
        padded = pad(curve, beyond, value=1.0).cpu()
        self.curve[layer] += padded.sum(0).numpy()
        self.curve_squares[layer] += (padded**2).sum(0).numpy()
        self.energy[layer] += pad(cumulative(values**2), beyond, value=1.0).cpu().sum(0).numpy()
        ranks = rank(values, longer_side(maps)).cpu().numpy()
        self.ranks[layer] += ranks.sum(0)
        self.rank_least[layer] = np.minimum(self.rank_least[layer], ranks.min(0))
        self.rank_most[layer] = np.maximum(self.rank_most[layer], ranks.max(0))
        self.values = max(self.values, curve.size(-1))
        return curve

    def check(self, maps: Tensor, curve: Tensor) -> None:
        """Compare a layer's curves with those of double precision.

        Raises:
            ValueError: they differ by more than ``TOLERANCE``.
        """
        exact = cumulative(singular_values(maps.cpu().double()))
        self.difference = max(self.difference, float((exact - curve.cpu()).abs().max()))
        if self.difference > TOLERANCE:
            raise ValueError(f"curves in single precision are {self.difference:.1e} off; {TOLERANCE:.0e} is allowed")


def measure(
    model: AttentionModel, texts: Sentences, sentences: int, state: Path, key: Dict[str, Any], batch: int = 1,
    check: int = 4,
) -> Sums:  # fmt: skip
    """Sum the curves of so many sentences, or of all that the text has.

    Args:
        state: file of the sums, written every half minute and at the end; if it exists, the sums continue from it.
        key: the question as JSON; a state of any other is refused.
        batch: sentences at once.
        check: how many of the first sentences to compute in double precision too.

    Raises:
        ValueError: ``state`` is of something else or of more sentences, the text has no sentence, weights are not
            finite.
        OSError: ``state`` cannot be written.
    """
    sums = read_state(state, key) or Sums.empty(model.layers, model.heads, texts.n)
    if sums.sentences > sentences:
        raise ValueError(f"{state} has {sums.sentences:,} sentences; --sentences is {sentences:,}, which is fewer")
    saved = time.monotonic()
    with Progress("spectrum", sentences, "sentences") as progress:
        progress.add(sums.sentences)
        remaining = islice(texts, sums.sentences, sentences)
        while group := list(islice(remaining, batch)):
            _add(model, sums, group, check)
            progress.add(len(group))
            if time.monotonic() - saved > _SAVE_EVERY:
                write_state(sums, state, key)
                saved = time.monotonic()
        if sums.sentences == 0:
            counts = texts.counts
            raise ValueError(f"the text has {counts.texts:,} texts and no sentence of {texts.n} tokens "
                             f"({counts.short:,} shorter); give more text, a smaller --length or --short pad"
                             f"{texts.left_out()}")  # fmt: skip
    write_state(sums, state, key)
    return sums


def _add(model: AttentionModel, sums: Sums, group: List[List[int]], check: int) -> None:
    """Add sentences, which are padded to the longest of them."""
    begun = time.monotonic()
    longest = max(map(len, group))
    filler = model.pad if model.pad is not None else 0
    tokens = torch.tensor([sentence + [filler] * (longest - len(sentence)) for sentence in group])
    padding = torch.arange(longest) >= torch.tensor([[len(sentence)] for sentence in group])  # (B, n')
    mask = padding.to(model.device) if padding.any() else None
    checked = max(0, min(check - sums.sentences, len(group)))

    def receive(layer: int, maps: Tensor) -> None:
        maps = without_padding(maps, mask, positions=model.kind != "linformer")
        curve = sums.add(layer, maps)
        if checked:
            sums.check(maps[:checked], curve[:checked])

    model.maps(tokens, receive, padding)
    sums.sentences += len(group)
    sums.checked += checked
    sums.seconds += time.monotonic() - begun


def write_state(sums: Sums, path: Path, key: Dict[str, Any]) -> None:
    """Whole or not at all."""
    with atomic(path, "wb") as file:
        np.savez(file, key=np.array(json.dumps(key, sort_keys=True)), **vars(sums))


def read_state(path: Path, key: Dict[str, Any]) -> Optional[Sums]:
    """The sums of a file that ``write_state`` wrote; None if there is no file.

    Raises:
        ValueError: it is of another key, or no such file.
    """
    if not Path(path).exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        theirs = json.loads(str(found.pop("key")))
        sums = Sums(**{name: value if value.ndim else value.item() for name, value in found.items()})
    except PermissionError:
        raise
    except Exception:  # a damaged archive fails anywhere in its reader
        raise ValueError(f"{path} is not what this command wrote, or damaged; delete it to start over") from None
    ours = json.loads(json.dumps(key))
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            before, now = (json.dumps(values.get(name))[:200] for values in (theirs, ours))
            raise ValueError(f"{path} was begun with another {name}: {before}, now {now}; take another folder")
    return sums
