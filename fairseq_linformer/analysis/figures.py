"""Figures of the spectrum, readable in black and white: layers go from dark to light, lines differ in dashes.

    L layers, H heads, r singular values
"""

from pathlib import Path
from typing import List, Optional, Sequence

import numpy as np

from ..files import atomic
from .result import Spectrum

DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))


def new_figure(width: float, height: float):
    """An empty figure, made without pyplot, which would look for a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure, path) -> None:
    """As the suffix says, PNG or SVG; whole or not at all.

    Raises:
        ValueError: another suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ValueError(f"{path} ends in {suffix!r}; a figure must end in .png or .svg")
    with atomic(path, "wb") as file:
        figure.savefig(file, format=suffix[1:])


def draw_spectra(path, spectra: Sequence[Spectrum], titles: Optional[Sequence[str]] = None) -> None:
    """Figure 1: for each spectrum the curve of each layer, and behind them the heat map of the first one.

    Args:
        path: PNG or SVG to write.
        spectra: one for each data set and model.
        titles: of each; by default what the facts say.

    Raises:
        ValueError: there is none, or as many titles are not given.
    """
    titles = [_title(s) for s in spectra] if titles is None else list(titles)
    if not spectra or len(titles) != len(spectra):
        raise ValueError(f"{len(spectra)} spectra and {len(titles)} titles are given; there must be one at least, and as many of each")
    figure = new_figure(3.6 * len(spectra) + 4, 3.8)
    axes = figure.subplots(1, len(spectra) + 1, squeeze=False)[0]
    for i, (ax, spectrum, title) in enumerate(zip(axes, spectra, titles)):
        _curves(ax, spectrum, title, legend=i == 0 or len(spectrum.layers) != len(spectra[0].layers))
    axes[0].set_ylabel("normalised cumulative singular value")
    _heat_map(figure, axes[-1], spectra[0], titles[0])
    save(figure, path)


def shades(count: int) -> List[tuple]:
    """So many colours from dark to light, which a colour-blind reader tells apart and grey print keeps in order."""
    from matplotlib import colormaps

    return [colormaps["cividis"](x) for x in np.linspace(0.0, 0.85, count)]


def _title(spectrum: Spectrum) -> str:
    facts = spectrum.facts
    # What was measured before the text's name was noted has it in its key.
    text = facts.get("text") or ", ".join(Path(source["location"]).name for source in facts["key"]["texts"])
    padded = facts.get("short_sentences") == "padded" and facts["texts"].get("short", 0)
    length = f"up to {facts['n']} tokens" if padded else f"n = {facts['n']}"
    return f"{facts['model']} on {text}".replace("$", r"\$") + f"\n{length}, {facts['sentences']:,} sentences"


def _curves(ax, spectrum: Spectrum, title: str, legend: bool) -> None:
    L, r = spectrum.layers.shape
    index = np.arange(1, r + 1)
    for layer, (curve, colour) in enumerate(zip(spectrum.layers, shades(L))):
        ax.plot(index, curve, color=colour, linestyle=DASHES[layer % len(DASHES)], linewidth=1.6, label=f"layer {layer + 1}")
    ax.axvline(spectrum.index, color="0.6", linewidth=0.8, linestyle=":")
    ax.set(title=title, xlabel="index of singular value", ylim=(0, 1.02), xlim=(0, r))
    ax.title.set_fontsize(9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False, fontsize=7 if L <= 12 else 5, loc="lower right", ncols=1 if L <= 8 else 2)


def _heat_map(figure, ax, spectrum: Spectrum, title: str) -> None:
    heat = spectrum.heat
    image = ax.imshow(heat, cmap="cividis", aspect="auto", origin="lower")
    if heat.size <= 64:
        middle = (heat.max() + heat.min()) / 2
        for (layer, head), value in np.ndenumerate(heat):
            ax.text(head, layer, f"{value:.2f}", ha="center", va="center", fontsize=8, color="white" if value <= middle else "black")
    step = [max(1, size // 12) for size in heat.shape]
    ax.set_yticks(range(0, heat.shape[0], step[0]), range(1, heat.shape[0] + 1, step[0]))
    ax.set_xticks(range(0, heat.shape[1], step[1]), range(1, heat.shape[1] + 1, step[1]))
    ax.set(title=f"cumulative value at index {spectrum.index}\n{title}", xlabel="head", ylabel="layer")
    ax.title.set_fontsize(9)
    figure.colorbar(image, ax=ax, shrink=0.85)


def draw_maps(path, maps: Sequence[np.ndarray], tokens: Sequence[str], title: str) -> None:
    """Attention of one sentence: a picture for each layer (down) and head (across), white for no attention.

    Args:
        path: PNG or SVG to write.
        maps: of each layer (H, n, m); the columns of a Linformer are projected positions. Large ones are drawn by their largest value
            in blocks.
        tokens: the n tokens, named at the rows (and at the columns where those are tokens) if there are 40 at most.
    """
    from matplotlib.ticker import MaxNLocator

    L, H = len(maps), maps[0].shape[0]
    figure = new_figure(max(4.0, 2.3 * H), 2.3 * L + 0.6)
    figure.suptitle(title.replace("$", r"\$"), fontsize=9)
    for layer, row in enumerate(figure.subplots(L, H, squeeze=False)):
        for head, ax in enumerate(row):
            map_ = maps[layer][head]
            (n, m) = map_.shape
            ax.imshow(_largest(map_, 200), cmap="Greys", vmin=0, vmax=float(map_.max()), aspect="auto", interpolation="nearest",
                      extent=(-0.5, m - 0.5, n - 0.5, -0.5))  # fmt: skip
            ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7)
            named = len(tokens) <= 40
            words = [token.replace("$", r"\$") for token in tokens]
            for axis, size in ((ax.yaxis, map_.shape[0]), (ax.xaxis, map_.shape[1])):
                axis.set_major_locator(MaxNLocator(4, integer=True))
                if named and size == len(tokens) and (axis is ax.xaxis or head == 0):
                    axis.set_ticks(range(size), words, rotation=90 if axis is ax.xaxis else 0)
            ax.tick_params(labelsize=5)
    figure.supxlabel("position attended to" if maps[0].shape[-1] == len(tokens) else "projected position attended to", fontsize=8)
    figure.supylabel("position", fontsize=8)
    save(figure, path)


def _largest(map_: np.ndarray, pixels: int) -> np.ndarray:
    """The largest of each block, so that a picture of so many pixels has every line, even one that is a position wide."""
    rows, columns = (-(-size // pixels) for size in map_.shape)
    padded = np.pad(map_, [(0, -size % step) for size, step in zip(map_.shape, (rows, columns))])
    return padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns).max((1, 3))
