"""The numbers of a spectrum, and the k that it suggests."""

import pytest
import torch

from fairseq_linformer.analysis.result import read, suggest
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

from .conftest import HEADS, LAYERS, N


def test_the_suggested_k_makes_a_model(measured):
    found = read(measured)
    for measure, curve in (("values", found.curve), ("squares", found.energy)):
        made = {}
        for sharing, k in suggest(found, 0.9, measure).items():
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
            made[sharing] = config.projected_dims
        for layer in range(LAYERS):
            k = made["none"][layer]
            for head, one in enumerate((k,) * HEADS if isinstance(k, int) else k):
                # The smallest that reaches the share.
                assert curve[layer, head, one - 1] >= 0.9 and (one == 1 or curve[layer, head, one - 2] < 0.9)
            assert made["headwise"][layer] == made["key-value"][layer] == (k if isinstance(k, int) else max(k))
        assert set(made["layerwise"]) == {max(made["headwise"])}
    with pytest.raises(ValueError, match="area"):
        suggest(found, 0.9, "area")


def test_a_folder_without_a_spectrum_is_refused(tmp_path):
    with pytest.raises(ValueError, match="spectrum.npz"):
        read(tmp_path)
    (tmp_path / "spectrum.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="spectrum.npz .*damaged"):
        read(tmp_path)
