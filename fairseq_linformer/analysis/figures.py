"""Figures of spectra, readable in black and white: layers go from dark to light, and lines differ in dashes.

L layers, H heads, r singular values
"""

from collections.abc import Sequence

import numpy as np

from ..files import open_atomic
from .spectrum import Spectrum

DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))


def draw_spectra(path, spectra: Sequence[Spectrum]) -> None:
    """Figure 1: the curves of each spectrum by layer, and the heat map of the first spectrum; a PNG."""
    from matplotlib.figure import Figure

    # Between dollar signs matplotlib reads mathematics.
    titles = [f"{each.name}\nn = {each.n}, {each.sentences:,} sentences".replace("$", r"\$") for each in spectra]
    # Without pyplot, which would look for a display.
    figure = Figure(figsize=(3.6 * len(spectra) + 4, 3.8), dpi=110, layout="constrained")
    axes = figure.subplots(1, len(spectra) + 1, squeeze=False)[0]
    for ax, spectrum, title in zip(axes, spectra, titles):
        _draw_curves(ax, spectrum, title)
    axes[0].set_ylabel("normalized cumulative singular value")
    axes[0].legend(frameon=False, fontsize=6, loc="lower right", ncols=1 + len(spectra[0].layers) // 9)
    _draw_heat_map(figure, axes[-1], spectra[0], titles[0])
    with open_atomic(path, "wb") as file:
        figure.savefig(file, format="png")


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
