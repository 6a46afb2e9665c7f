"""The numbers of a spectrum, and the k that it suggests."""

import pytest
import torch

from fairseq_linformer.analysis.spectrum_result import read_spectrum, suggest_projected_dim
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

from .conftest import HEADS, LAYERS, N


def test_suggested_k_is_the_smallest_and_builds_a_model(spectrum_folder):
    spectrum = read_spectrum(spectrum_folder)
    for measure, curve in (("values", spectrum.curve), ("squares", spectrum.energy)):
        dims = {}
        for sharing, k in suggest_projected_dim(spectrum, 0.9, measure).items():
            config = LinformerConfig(
                vocab_size=24,
                max_positions=N,
                projected_dim=str(k),
                sharing=sharing,
                layers=LAYERS,
                attention_heads=HEADS,
                embed_dim=16,
                ffn_embed_dim=32,
            )
            LinformerEncoder(config)(torch.full((1, N), 5))
            dims[sharing] = config.projected_dims
        for layer in range(LAYERS):
            k = dims["none"][layer]
            for head, head_k in enumerate((k,) * HEADS if isinstance(k, int) else k):
                assert curve[layer, head, head_k - 1] >= 0.9
                assert head_k == 1 or curve[layer, head, head_k - 2] < 0.9
            assert dims["headwise"][layer] == dims["key-value"][layer] == (k if isinstance(k, int) else max(k))
        assert set(dims["layerwise"]) == {max(dims["headwise"])}
    with pytest.raises(ValueError, match="area"):
        suggest_projected_dim(spectrum, 0.9, "area")


def test_folder_without_a_spectrum_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="spectrum.npz"):
        read_spectrum(tmp_path)
    (tmp_path / "spectrum.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="spectrum.npz .*damaged"):
        read_spectrum(tmp_path)
