"""Known singular values, means over sentences against a loop, resuming, and the k that a spectrum suggests."""

import numpy as np
import pytest
import torch

from fairseq_linformer.analysis import spectrum as spectrum_module
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.spectrum import Spectrum, cumulative_shares, measure_spectrum
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

from .conftest import HEADS, LAYERS, N


def measure(model, text, number=7, state=None) -> Spectrum:
    return measure_spectrum(model, text, number, text.n, text.name, state)


def test_matrix_with_known_singular_values():
    generator = torch.Generator().manual_seed(0)
    U, V = (torch.linalg.qr(torch.randn(size, 5, generator=generator)).Q for size in (9, 5))
    found = cumulative_shares(U * torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]) @ V.T)
    torch.testing.assert_close(found, torch.tensor([0.4, 0.7, 0.9, 1.0, 1.0]).double(), rtol=0, atol=1e-5)


def test_mean_over_sentences_equals_a_loop_in_double_precision(model, sentences):
    expected = np.zeros((LAYERS, HEADS, N))
    for sentence, _ in zip(sentences(model), range(7)):
        for layer, maps in enumerate(model.read_maps(torch.tensor([sentence]))):
            expected[layer] += cumulative_shares(maps.double())[0].numpy() / 7
    spectrum = measure(model, sentences(model))
    np.testing.assert_allclose(spectrum.curve, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(spectrum.heat, expected[..., 3], rtol=0, atol=1e-5)  # a quarter of 16, counted from 1
    np.testing.assert_allclose(spectrum.layers, expected.mean(1), rtol=0, atol=1e-5)
    assert (spectrum.sentences, spectrum.n, spectrum.index) == (7, N, 4)
    assert spectrum.name.endswith("/model.pt on text.txt")


def test_damaged_weights_are_reported(model, sentences, monkeypatch):
    monkeypatch.setattr(model, "read_maps", lambda tokens: [torch.full((1, HEADS, N, N), torch.nan)])
    with pytest.raises(ValueError, match="is NaN or infinite; its weights are damaged"):
        measure(model, sentences(model))


class Stop(Exception):
    pass


def test_an_interrupted_run_resumes(model, sentences, tmp_path, monkeypatch):
    expected, state = measure(model, sentences(model), 9), tmp_path / "state.npz"
    monkeypatch.setattr(spectrum_module, "_SAVE_INTERVAL", 0.0)
    read_maps, calls = model.read_maps, []

    def read_five(tokens):
        if len(calls) == 5:
            raise Stop
        calls.append(tokens)
        return read_maps(tokens)

    monkeypatch.setattr(model, "read_maps", read_five)
    with pytest.raises(Stop):
        measure(model, sentences(model), 9, state)
    monkeypatch.setattr(model, "read_maps", lambda tokens: (calls.append(tokens), read_maps(tokens))[1])
    np.testing.assert_allclose(measure(model, sentences(model), 9, state).curve, expected.curve, rtol=0, atol=1e-12)
    assert len(calls) == 9


def test_layers_that_reach_different_numbers_of_windows(linformer):
    """Of 16 positions; the windows of every second layer are shifted by half of one."""
    model = load_model(linformer(projected_dim=8, sharing="headwise", projection_init="staggered"))
    sentences = [[0, 5, 6, 7, 8, 9, 10, 2]]
    reached = [maps.size(-1) for maps in model.read_maps(torch.tensor(sentences))]
    curve = measure_spectrum(model, sentences, 1, 8, "text").curve
    assert len(set(reached)) > 1 and curve.shape[-1] == max(reached)
    np.testing.assert_allclose(curve[..., -1], 1.0)


def test_rejected_text(model, sentences, tmp_path):
    (tmp_path / "short.txt").write_text("the cat\n")
    with pytest.raises(ValueError, match="short.txt has no sentence of 16 tokens"):
        measure(model, sentences(model, tmp_path / "short.txt"))


def test_suggested_k_is_the_smallest_and_builds_a_model(model, sentences):
    spectrum, dims = measure(model, sentences(model)), {}
    sizes = {"layers": LAYERS, "attention_heads": HEADS, "embed_dim": 16, "ffn_embed_dim": 32}
    for sharing, k in spectrum.suggest_projected_dim(0.9).items():
        config = LinformerConfig(vocab_size=24, max_positions=N, projected_dim=str(k), sharing=sharing, **sizes)
        LinformerEncoder(config)(torch.full((1, N), 5))
        dims[sharing] = config.projected_dims
    for layer in range(LAYERS):
        k = dims["none"][layer]
        for head, head_k in enumerate((k,) * HEADS if isinstance(k, int) else k):
            assert spectrum.curve[layer, head, head_k - 1] >= 0.9
            assert head_k == 1 or spectrum.curve[layer, head, head_k - 2] < 0.9
        assert dims["headwise"][layer] == dims["key-value"][layer] == (k if isinstance(k, int) else max(k))
    assert set(dims["layerwise"]) == {max(dims["headwise"])}
