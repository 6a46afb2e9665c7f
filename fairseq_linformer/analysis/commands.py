"""``analyze spectrum``: measure a model on texts, and write files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..checkpoints.transformers_loading import hash_weights
from ..data.manifest import describe_source
from ..files import INPUTS, check_new_folder, claim, fingerprint, open_atomic, write_json
from .attention_model import AttentionModel
from .figures import draw_spectra
from .sentences import Sentences
from .spectrum import Spectrum, measure_spectrum

STATE = "state-{}.npz"
SHARES = (0.8, 0.9, 0.95)
"""``spectrum.json`` has the suggested k for each."""


def analyze_spectrum(model: AttentionModel, texts: Sequence[Sentences], number: int, out: Path) -> list[Spectrum]:
    """Measure the spectrum on ``number`` sentences of each text, and write the figure, its numbers and all curves to
    ``out``, a new or empty folder, or that of an interrupted run with the same inputs, which is resumed."""
    import matplotlib  # noqa: F401  without it, fail before the measurement

    if not list(out.glob(STATE.format("*"))):
        (out / INPUTS).unlink(missing_ok=True)  # of a run that has measured nothing
        check_new_folder(out)
    # The first sentence also tells the tokenizer.
    described = [[describe_source(text.source), text.break_mode, text.n, next(iter(text), None)] for text in texts]
    inputs = {"CHECKPOINT": hash_weights(model.name), "--num-sentences": number, "texts": fingerprint(described)}
    claim(out, inputs)
    states = [out / STATE.format(i) for i in range(len(texts))]
    spectra = [measure_spectrum(model, text, number, text.n, text.name, state) for text, state in zip(texts, states)]
    draw_spectra(out / "spectrum.png", spectra)
    with open_atomic(out / "spectrum.npz", "wb") as file:
        np.savez(file, *(spectrum.curve for spectrum in spectra))
    write_json(
        out / "spectrum.json",
        [
            {
                "name": spectrum.name,
                "n": spectrum.n,
                "sentences": spectrum.sentences,
                "skipped": text.skipped,
                "truncated": text.truncated,
                "index": spectrum.index,
                "heat": np.round(spectrum.heat, 5).tolist(),
                "layers": np.round(spectrum.layers, 5).tolist(),
                "suggested_k": {share: spectrum.suggest_projected_dim(share) for share in SHARES},
            }
            for spectrum, text in zip(spectra, texts)
        ],
    )
    for temporary in (*states, out / INPUTS):
        temporary.unlink(missing_ok=True)
    return spectra


def describe_spectrum(text: Sentences, spectrum: Spectrum, share: float | None = None) -> str:
    """The text and its spectrum in words, and the k that keep a share of the sum of singular values."""
    layers = ", ".join(f"layer {i} {value:.3f}" for i, value in enumerate(spectrum.heat.mean(1), start=1))
    lines = [
        f"{text.name}: {spectrum.sentences:,} sentences of {text.n} tokens; {text.skipped:,} shorter (skipped), "
        f"{text.truncated:,} truncated",
        f"normalized cumulative singular value at index {spectrum.index} of {spectrum.curve.shape[-1]}, mean over "
        f"heads: {layers}",
    ]
    if share is not None:
        lines.append(f"for {share:g} of the sum of singular values, at n = {text.n}:")
        suggested = spectrum.suggest_projected_dim(share)
        lines += [f"  --sharing {sharing} --projected-dim {k}" for sharing, k in suggested.items()]
    return "\n".join(lines)
