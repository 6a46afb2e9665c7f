"""Figures of spectra and attention, readable in black and white: layers go from dark to light, lines differ in dashes.

L layers, H heads, r singular values, n positions, m columns of a map
"""

from collections.abc import Sequence

import numpy as np

from ..files import open_atomic
from .spectrum import Spectrum

DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))


def new_figure(width: float, height: float):
    """An empty figure, built without pyplot, which would look for a display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def save_figure(figure, path) -> None:
    """Write a PNG atomically."""
    with open_atomic(path, "wb") as file:
        figure.savefig(file, format="png")


def _escape_mathtext(text: str) -> str:
    """Escape dollar signs, between which matplotlib reads mathtext."""
    return text.replace("$", r"\$")


def draw_spectra(path, spectra: Sequence[Spectrum]) -> None:
    """Figure 1: the curves of each spectrum by layer, and the heat map of the first spectrum."""
    titles = [_escape_mathtext(f"{each.name}\nn = {each.n}, {each.sentences:,} sentences") for each in spectra]
    figure = new_figure(3.6 * len(spectra) + 4, 3.8)
    axes = figure.subplots(1, len(spectra) + 1, squeeze=False)[0]
    for ax, spectrum, title in zip(axes, spectra, titles):
        _draw_curves(ax, spectrum, title)
    axes[0].set_ylabel("normalized cumulative singular value")
    axes[0].legend(frameon=False, fontsize=6, loc="lower right", ncols=1 + len(spectra[0].layers) // 9)
    _draw_heat_map(figure, axes[-1], spectra[0], titles[0])
    save_figure(figure, path)


def _draw_curves(ax, spectrum: Spectrum, title: str) -> None:
    from matplotlib import colormaps

    L, r = spectrum.layers.shape
    colors = colormaps["cividis"](np.linspace(0.0, 0.85, L))  # for color-blind readers, ordered in grayscale
    for layer, curve in enumerate(spectrum.layers):
        style = {"color": colors[layer], "linestyle": DASHES[layer % len(DASHES)], "linewidth": 1.6}
        ax.plot(np.arange(1, r + 1), curve, label=f"layer {layer + 1}", **style)
    ax.axvline(spectrum.index, color="0.6", linewidth=0.8, linestyle=":")
    ax.set(xlabel="index of singular value", ylim=(0, 1.02), xlim=(0, r))
    ax.set_title(title, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)


def _draw_heat_map(figure, ax, spectrum: Spectrum, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    L, H = spectrum.heat.shape
    extent = (0.5, H + 0.5, 0.5, L + 0.5)
    image = ax.imshow(spectrum.heat, cmap="cividis", aspect="auto", origin="lower", extent=extent)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="head", ylabel="layer")
    ax.set_title(f"cumulative value at index {spectrum.index}\n{title}", fontsize=9)
    figure.colorbar(image, ax=ax, shrink=0.85)


def draw_maps(path, maps: Sequence[np.ndarray], tokens: Sequence[str], title: str, is_projected: bool) -> None:
    """The attention maps of one sentence: a row per layer and a column per head, white for no attention.

    Args:
        maps: (H, n, m) of each layer. Large maps are drawn as the maximum of each block.
        tokens: the n tokens, which label the rows, and the columns unless ``is_projected``, if there are at most 40.
        is_projected: whether the columns are a Linformer's projected positions.
    """
    from matplotlib.ticker import MaxNLocator

    L, H = len(maps), maps[0].shape[0]
    words = [_escape_mathtext(token) for token in tokens]
    figure = new_figure(max(4.0, 2.3 * H), 2.3 * L + 0.6)
    figure.suptitle(_escape_mathtext(title), fontsize=9)
    axes = figure.subplots(L, H, squeeze=False)
    for (layer, head), ax in np.ndenumerate(axes):
        map_ = maps[layer][head]
        n, m = map_.shape
        ax.imshow(
            _block_maxima(map_, 200),
            cmap="Greys",
            vmin=0,
            vmax=float(map_.max()),
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, m - 0.5, n - 0.5, -0.5),
        )
        ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7)
        for axis, rotation, has_labels in ((ax.yaxis, 0, head == 0), (ax.xaxis, 90, not is_projected)):
            axis.set_major_locator(MaxNLocator(4, integer=True))
            if has_labels and len(words) <= 40:
                axis.set_ticks(range(len(words)), words, rotation=rotation)
        ax.tick_params(labelsize=5)
    figure.supxlabel("projected position attended to" if is_projected else "position attended to", fontsize=8)
    figure.supylabel("position", fontsize=8)
    save_figure(figure, path)


def _block_maxima(map_: np.ndarray, pixels: int) -> np.ndarray:
    """The maximum of each block, at most ``pixels`` on a side: lines that are one position wide stay visible."""
    rows, columns = (-(-size // pixels) for size in map_.shape)
    padded = np.pad(map_, [(0, -size % step) for size, step in zip(map_.shape, (rows, columns))])
    return padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns).max((1, 3))
