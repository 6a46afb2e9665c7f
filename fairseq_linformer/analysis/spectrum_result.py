"""The spectrum of a model: its arrays and numbers, and the k that it suggests.

L layers, H heads, r singular values
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..files import open_atomic
from ..projected_dim import Dim, format_projected_dim
from .singular import cumulative_shares, numerical_rank, smallest_dimension
from .spectrum import SpectrumSums

ARRAYS, NUMBERS, FIGURE = "spectrum.npz", "spectrum.json", "spectrum.png"
SHARES = (0.8, 0.9, 0.95)
"""``spectrum.json`` has k for each of these shares."""
MEASURES = ("values", "squares")
"""Whether a share is of the sum of singular values, as in Figure 1, or of their squares."""


@dataclass
class Spectrum:
    """Means over sentences.

    Attributes:
        curve: (L, H, r) normalized cumulative singular values.
        deviation: (L, H, r), their standard deviation over sentences.
        energy: (L, H, r) normalized cumulative squared singular values.
        rank: (3, L, H) mean, minimum and maximum numerical rank of a map.
        projections: (r,) or (H, r) singular values of each matrix E and F of a Linformer, by name.
        facts: JSON that describes the measurement: ``model``, ``text``, ``kind``, ``n``, ``sentences``, ``index``,
            counts, key.
    """

    curve: np.ndarray
    deviation: np.ndarray
    energy: np.ndarray
    rank: np.ndarray
    projections: dict[str, np.ndarray]
    facts: dict[str, Any]

    @classmethod
    def from_sums(cls, sums: SpectrumSums, projections: dict[str, np.ndarray], facts: dict[str, Any]) -> "Spectrum":
        N, r = sums.sentences, max(sums.values, facts["index"])  # beyond a sentence's own values its curve is 1
        curve = sums.curve[..., :r] / N
        deviation = np.sqrt(np.maximum(sums.curve_squares[..., :r] / N - curve**2, 0))
        return cls(
            curve,
            deviation,
            sums.energy[..., :r] / N,
            np.stack([sums.ranks / N, sums.rank_least, sums.rank_most]),
            projections,
            facts,
        )

    @property
    def index(self) -> int:
        """The index of the singular value in the heat map, counted from 1 as in the paper."""
        return self.facts["index"]

    @property
    def heat(self) -> np.ndarray:
        """(L, H): the mean normalized cumulative singular value at ``index``, as in Figure 1 (right)."""
        return self.curve[..., self.index - 1]

    @property
    def layers(self) -> np.ndarray:
        """(L, r): the curve of each layer, mean over heads, as in Figure 1 (left)."""
        return self.curve.mean(1)

    def numbers(self) -> dict[str, Any]:
        """The numbers behind the figure, for JSON."""
        r = self.layers.shape[1]
        indices = sorted({max(1, r * i // 16) for i in (1, 2, 4, 8, 12)} | {self.index})
        return {
            **self.facts,
            "singular_values": r,
            "layers_at": {str(i): _round(self.layers[:, i - 1]) for i in indices},
            "heat_map_at_index": _round(self.heat),
            "deviation_at_index": _round(self.deviation[..., self.index - 1]),
            "rank_mean": _round(self.rank[0]),
            "rank_least": self.rank[1].tolist(),
            "rank_most": self.rank[2].tolist(),
            "suggested_k": {
                m: {f"{share:g}": suggest_projected_dim(self, share, m) for share in SHARES} for m in MEASURES
            },
            "projections": {
                name: _summarize_matrix(values, self.facts["matrix_columns"])
                for name, values in self.projections.items()
            },
        }

    def write(self, folder: Path) -> None:
        """Write ``spectrum.npz`` and ``spectrum.json``, each atomically."""
        projections: dict[str, Any] = {f"projection/{name}": values for name, values in self.projections.items()}
        with open_atomic(folder / ARRAYS, "wb") as file:
            np.savez(
                file,
                curve=self.curve,
                deviation=self.deviation,
                energy=self.energy,
                rank=self.rank,
                heat=self.heat,
                layers=self.layers,
                facts=np.array(json.dumps(self.facts)),
                **projections,
            )
        with open_atomic(folder / NUMBERS) as file:
            file.write(json.dumps(self.numbers(), indent=1) + "\n")


def read_spectrum(folder) -> Spectrum:
    """Read a folder of ``Spectrum.write``.

    Raises:
        ValueError: its ``spectrum.npz`` is missing, damaged or of another kind.
    """
    path = Path(folder) / ARRAYS
    if not path.is_file():
        raise ValueError(f"{folder} must be a folder of a finished `analyze spectrum`; it has no {ARRAYS}")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("curve", "deviation", "energy", "rank")}
            matrices = {
                name.removeprefix("projection/"): file[name] for name in file.files if name.startswith("projection/")
            }
            facts = json.loads(str(file["facts"]))
            facts["model"], facts["key"]["texts"], facts["n"], facts["sentences"], facts["index"]
            return Spectrum(**arrays, projections=matrices, facts=facts)
    except PermissionError:
        raise
    except Exception:  # a damaged archive fails anywhere in its reader
        raise ValueError(f"{path} is damaged or was not written by `analyze spectrum`") from None


def dimensions(spectrum: Spectrum, share: float, measure: str = "values") -> np.ndarray:
    """(L, H): the smallest k at which the mean curve reaches ``share``.

    Raises:
        ValueError: the share is not above 0 and below 1, or the measure is not in ``MEASURES``.
    """
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; choose from {', '.join(MEASURES)}")
    curve = spectrum.curve if measure == "values" else spectrum.energy
    return smallest_dimension(torch.from_numpy(curve), share).numpy()


def suggest_projected_dim(spectrum: Spectrum, share: float, measure: str = "values") -> dict[str, int | str]:
    """The suggested value of ``--projected-dim`` for each kind of sharing.

    ``none`` has a k per head. Where heads or layers share a matrix, k is the largest that any of them needs.
    """
    ks = dimensions(spectrum, share, measure)
    heads: list[Dim] = [int(row[0]) if len(set(row)) == 1 else tuple(map(int, row)) for row in ks]
    layers = [int(k) for k in ks.max(1)]
    layerwise, per_layer = int(ks.max()), format_projected_dim(layers)
    return {"none": format_projected_dim(heads), "headwise": per_layer, "key-value": per_layer, "layerwise": layerwise}


def _summarize_matrix(values: np.ndarray, n: int) -> dict[str, Any]:
    """Rank, extreme singular values and dimensions of a matrix E or F with n columns, from its singular values (r,) or
    those of its heads (H, r)."""
    tensor = torch.from_numpy(np.atleast_2d(values)).float()
    curve = cumulative_shares(tensor)
    return {
        "singular_values": tensor.size(-1),
        "largest": _round(tensor[:, 0].numpy()),
        "smallest": _round(tensor[:, -1].numpy()),
        "rank": numerical_rank(tensor, n).tolist(),
        "dimension_for": {f"{share:g}": smallest_dimension(curve, share).tolist() for share in SHARES},
    }


def _round(values: np.ndarray) -> list:
    return np.round(values, 5).tolist()
