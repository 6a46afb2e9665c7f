"""The spectrum of a model: its arrays, its numbers, and the k that it suggests.

    L layers, H heads, r singular values
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Union

import numpy as np
import torch

from ..files import atomic
from ..projected_dim import Dim, short_form
from .singular import cumulative, dimension_for, rank
from .spectrum import Sums

ARRAYS, NUMBERS, FIGURE = "spectrum.npz", "spectrum.json", "spectrum.png"
SHARES = (0.8, 0.9, 0.95)
"""The shares for which the file always has k."""
MEASURES = ("values", "squares")
"""The sum whose share k holds: of singular values, as in Figure 1, or of their squares."""


@dataclass
class Spectrum:
    """Means over sentences.

    Attributes:
        curve, deviation: (L, H, r) normalised cumulative singular values, and their standard deviation over sentences.
        energy: (L, H, r), of their squares.
        rank: (3, L, H): mean, least and most numerical rank of a map.
        projections: name of a matrix E or F of a Linformer: (r,) or (H, r) singular values.
        facts: what was measured, as JSON has it: ``model``, ``text``, ``kind``, ``n``, ``sentences``, ``index``,
            counts, key.
    """

    curve: np.ndarray
    deviation: np.ndarray
    energy: np.ndarray
    rank: np.ndarray
    projections: Dict[str, np.ndarray]
    facts: Dict[str, Any]

    @classmethod
    def of(cls, sums: Sums, projections: Dict[str, np.ndarray], facts: Dict[str, Any]) -> "Spectrum":
        N, r = sums.sentences, max(sums.values, facts["index"])  # beyond a sentence's own values its curve is 1
        curve = sums.curve[..., :r] / N
        deviation = np.sqrt(np.maximum(sums.curve_squares[..., :r] / N - curve**2, 0))
        return cls(curve, deviation, sums.energy[..., :r] / N,
                   np.stack([sums.ranks / N, sums.rank_least, sums.rank_most]), projections, facts)  # fmt: skip

    @property
    def index(self) -> int:
        """The index that the heat map is at, counted from 1 as in the paper."""
        return self.facts["index"]

    @property
    def heat(self) -> np.ndarray:
        """(L, H): the mean normalised cumulative singular value at ``index``; the right of Figure 1."""
        return self.curve[..., self.index - 1]

    @property
    def layers(self) -> np.ndarray:
        """(L, r): a curve for each layer, the mean over its heads; the left of Figure 1."""
        return self.curve.mean(1)

    def numbers(self) -> Dict[str, Any]:
        """The numbers behind the figure, as JSON has them."""
        L, r = self.layers.shape
        marks = sorted({max(1, r * i // 16) for i in (1, 2, 4, 8, 12)} | {self.index})
        return {
            **self.facts,
            "singular_values": r,
            "layers_at": {str(i): _rounded(self.layers[:, i - 1]) for i in marks},
            "heat_map_at_index": _rounded(self.heat),
            "deviation_at_index": _rounded(self.deviation[..., self.index - 1]),
            "rank_mean": _rounded(self.rank[0]),
            "rank_least": self.rank[1].tolist(),
            "rank_most": self.rank[2].tolist(),
            "suggested_k": {m: {f"{share:g}": suggest(self, share, m) for share in SHARES} for m in MEASURES},
            "projections": {name: _matrix(m, self.facts["matrix_columns"]) for name, m in self.projections.items()},
        }

    def write(self, folder: Path) -> None:
        """``spectrum.npz`` and ``spectrum.json``, each whole or not at all."""
        with atomic(folder / ARRAYS, "wb") as file:
            np.savez(file, curve=self.curve, deviation=self.deviation, energy=self.energy, rank=self.rank,
                     heat=self.heat, layers=self.layers, facts=np.array(json.dumps(self.facts)),
                     **{f"projection/{name}": values for name, values in self.projections.items()})  # fmt: skip
        with atomic(folder / NUMBERS) as file:
            file.write(json.dumps(self.numbers(), indent=1) + "\n")


def read(folder) -> Spectrum:
    """What ``Spectrum.write`` wrote.

    Raises:
        ValueError: it is not there or is something else.
    """
    path = Path(folder) / ARRAYS
    if not path.is_file():
        raise ValueError(f"{folder} has no {ARRAYS}; it must be a folder that `analyze spectrum` has finished")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("curve", "deviation", "energy", "rank")}
            matrices = {name.removeprefix("projection/"): file[name] for name in file.files
                        if name.startswith("projection/")}  # fmt: skip
            facts = json.loads(str(file["facts"]))
            facts["model"], facts["key"]["texts"], facts["n"], facts["sentences"], facts["index"]
            return Spectrum(**arrays, projections=matrices, facts=facts)
    except PermissionError:
        raise
    except Exception:  # a damaged archive fails anywhere in its reader
        raise ValueError(f"{path} is no spectrum, or damaged") from None


def dimensions(spectrum: Spectrum, share: float, measure: str = "values") -> np.ndarray:
    """(L, H): the smallest k at which the mean curve reaches ``share``.

    Raises:
        ValueError: the share is not above 0 and below 1, or the measure is none of ``MEASURES``.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure is {measure!r}; it must be one of {', '.join(MEASURES)}")
    curve = spectrum.curve if measure == "values" else spectrum.energy
    return dimension_for(torch.from_numpy(curve), share).numpy()


def suggest(spectrum: Spectrum, share: float, measure: str = "values") -> Dict[str, Union[int, str]]:
    """k as ``--projected-dim`` takes it, for each kind of sharing.

    ``none`` has a k for each head. Where heads or layers share a matrix, it is the largest that one of them needs.
    """
    found = dimensions(spectrum, share, measure)
    heads: List[Dim] = [int(row[0]) if len(set(row)) == 1 else tuple(map(int, row)) for row in found]
    layers = [int(k) for k in found.max(1)]
    layerwise, per_layer = int(found.max()), short_form(layers)
    return {"none": short_form(heads), "headwise": per_layer, "key-value": per_layer, "layerwise": layerwise}


def _matrix(values: np.ndarray, n: int) -> Dict[str, Any]:
    """Of one matrix E or F, or of those of its heads: its rank, and how many dimensions hold shares of it."""
    values = torch.from_numpy(np.atleast_2d(values)).float()
    curve = cumulative(values)
    return {
        "singular_values": values.size(-1),
        "largest": _rounded(values[:, 0].numpy()),
        "smallest": _rounded(values[:, -1].numpy()),
        "rank": rank(values, n).tolist(),
        "dimension_for": {f"{share:g}": dimension_for(curve, share).tolist() for share in SHARES},
    }


def _rounded(values: np.ndarray) -> list:
    return np.round(values, 5).tolist()
