"""The spectrum of attention over many sentences: Figure 1 of the paper, for any encoder.

    B sentences per batch, L layers, H heads, n tokens per sentence, r singular values per map: n, or min(n, k) for a
    Linformer

Only sums of the normalized cumulative singular values (``singular.py``) are kept, by layer, head and index, so memory
does not grow with the number of sentences. The map of a padded sentence is the block of its real tokens, and its curve
is 1 beyond its length.
"""

import json
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..files import open_atomic
from ..progress import progress_bar
from .attention_model import AttentionModel
from .sentences import Sentences
from .singular import cumulative_shares, longer_side, numerical_rank, singular_values, zero_padding

STATE = "state.npz"
TOLERANCE = 1e-3
"""Maximum difference between a curve in single precision and in double precision."""
_SAVE_INTERVAL = 30.0
"""Seconds."""


@dataclass
class SpectrumSums:
    """Sums over the sentences so far, in double precision.

    Attributes:
        curve: (L, H, n) sums of normalized cumulative singular values.
        curve_squares: (L, H, n) sums of their squares, for the standard deviation.
        energy: (L, H, n) sums of normalized cumulative squared singular values.
        ranks, rank_least, rank_most: (L, H) sum, minimum and maximum of numerical ranks.
        values: r, the largest number of singular values of a map; curves are 1 beyond it.
        checked: number of sentences that were also computed in double precision.
        difference: the largest difference of their curves from those in double precision.
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
    def empty(cls, layers: int, heads: int, n: int) -> "SpectrumSums":
        curves, ranks = (layers, heads, n), (layers, heads)
        return cls(
            np.zeros(curves),
            np.zeros(curves),
            np.zeros(curves),
            np.zeros(ranks),
            np.full(ranks, np.inf),
            np.zeros(ranks),
        )

    def add(self, layer: int, maps: Tensor) -> Tensor:
        """Add the maps (B, H, n', m) of a layer, from ``zero_padding``. The caller counts the sentences.

        Returns:
            Their curves (B, H, r).
        """
        values = singular_values(maps)
        curve = cumulative_shares(values)
        beyond = (0, self.curve.shape[-1] - curve.size(-1))
        padded = pad(curve, beyond, value=1.0).cpu()
        self.curve[layer] += padded.sum(0).numpy()
        self.curve_squares[layer] += (padded**2).sum(0).numpy()
        self.energy[layer] += pad(cumulative_shares(values**2), beyond, value=1.0).cpu().sum(0).numpy()
        ranks = numerical_rank(values, longer_side(maps)).cpu().numpy()
        self.ranks[layer] += ranks.sum(0)
        self.rank_least[layer] = np.minimum(self.rank_least[layer], ranks.min(0))
        self.rank_most[layer] = np.maximum(self.rank_most[layer], ranks.max(0))
        self.values = max(self.values, curve.size(-1))
        return curve

    def check(self, maps: Tensor, curve: Tensor) -> None:
        """Compare curves (B, H, r) of ``maps`` with those computed in double precision.

        Raises:
            ValueError: they differ by more than ``TOLERANCE``.
        """
        exact = cumulative_shares(singular_values(maps.cpu().double()))
        self.difference = max(self.difference, float((exact - curve.cpu()).abs().max()))
        if self.difference > TOLERANCE:
            raise ValueError(
                f"single and double precision must agree within {TOLERANCE:.0e}, curves differ by {self.difference:.1e}"
            )


def accumulate_spectra(
    model: AttentionModel,
    texts: Sentences,
    sentences: int,
    state: Path,
    key: dict[str, Any],
    batch: int = 1,
    check: int = 4,
) -> SpectrumSums:
    """Sum the curves of the first ``sentences`` sentences of a text, or of all if it has fewer.

    Args:
        state: file of the sums, written every 30 seconds and at the end; if it exists, the sums continue from it.
        key: JSON that identifies the measurement; a state with a different key is rejected.
        batch: sentences per batch.
        check: number of sentences that are also computed in double precision.

    Raises:
        ValueError: ``state`` has a different key or more sentences, the text has no sentence, or weights are
            non-finite.
        OSError: ``state`` cannot be written.
    """
    sums = read_state(state, key) or SpectrumSums.empty(model.layers, model.heads, texts.n)
    if sums.sentences > sentences:
        raise ValueError(f"num_sentences must be at least {sums.sentences:,}, the number in {state}, got {sentences:,}")
    last_saved = time.monotonic()
    with progress_bar("spectrum", sentences, "sentence", initial=sums.sentences) as progress:
        remaining = islice(texts, sums.sentences, sentences)
        while group := list(islice(remaining, batch)):
            _add_batch(model, sums, group, check)
            progress.update(len(group))
            if time.monotonic() - last_saved > _SAVE_INTERVAL:
                write_state(sums, state, key)
                last_saved = time.monotonic()
        if sums.sentences == 0:
            counts = texts.counts
            raise ValueError(
                f"the text must have a sentence of {texts.n} tokens, all {counts.texts:,} texts are too short "
                f"({counts.short:,} sentences); use more text, a smaller --tokens-per-sample or --short pad"
            )
    write_state(sums, state, key)
    return sums


def _add_batch(model: AttentionModel, sums: SpectrumSums, batch: list[list[int]], check: int) -> None:
    """Add a batch of sentences, padded to the longest."""
    start = time.monotonic()
    longest = max(map(len, batch))
    pad_id = model.pad if model.pad is not None else 0
    tokens = torch.tensor([sentence + [pad_id] * (longest - len(sentence)) for sentence in batch])
    padding = torch.arange(longest) >= torch.tensor([[len(sentence)] for sentence in batch])  # (B, n')
    mask = padding.to(model.device) if padding.any() else None
    num_checked = max(0, min(check - sums.sentences, len(batch)))

    def receive(layer: int, maps: Tensor) -> None:
        maps = zero_padding(maps, mask, columns_are_positions=model.kind != "linformer")
        curve = sums.add(layer, maps)
        if num_checked:
            sums.check(maps[:num_checked], curve[:num_checked])

    model.read_maps(tokens, receive, padding)
    sums.sentences += len(batch)
    sums.checked += num_checked
    sums.seconds += time.monotonic() - start


def write_state(sums: SpectrumSums, path: Path, key: dict[str, Any]) -> None:
    """Write the sums atomically."""
    with open_atomic(path, "wb") as file:
        np.savez(file, key=np.array(json.dumps(key, sort_keys=True)), **vars(sums))


def read_state(path: Path, key: dict[str, Any]) -> SpectrumSums | None:
    """Read a file of ``write_state``; None if it does not exist.

    Raises:
        ValueError: its key differs, or the file is damaged or of another kind.
    """
    if not Path(path).exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        stored_key = json.loads(str(arrays.pop("key")))
        sums = SpectrumSums(**{name: value if value.ndim else value.item() for name, value in arrays.items()})
    except PermissionError:
        raise
    except Exception:  # a damaged archive fails anywhere in its reader
        raise ValueError(f"{path} is damaged or was not written by this command; delete it to start over") from None
    key = json.loads(json.dumps(key))
    for name in sorted({*stored_key, *key}):
        if stored_key.get(name) != key.get(name):
            stored, current = (json.dumps(values.get(name))[:200] for values in (stored_key, key))
            raise ValueError(
                f"{name} must be {stored}, as in {path}, got {current}; choose another folder to change it"
            )
    return sums
