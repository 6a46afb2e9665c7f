"""``read_maps`` against the attention weights of fairseq."""

import argparse

import pytest
import torch

from fairseq_linformer.analysis.loading import load_model

from .conftest import HEADS, LAYERS, N

TOKENS = torch.randint(4, 20, (2, N), generator=torch.Generator().manual_seed(0))


def test_maps_of_a_fairseq_roberta_equal_fairseqs(roberta, model):
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel

    checkpoint = torch.load(roberta, weights_only=True)
    dictionary = Dictionary.load(str(roberta.with_name("dict.txt")))
    dictionary.add_symbol("<mask>")
    fairseq_model = RobertaModel.build_model(
        argparse.Namespace(**checkpoint["cfg"]["model"]), argparse.Namespace(source_dictionary=dictionary)
    ).eval()
    fairseq_model.load_state_dict(checkpoint["model"])
    expected = []
    encoder = fairseq_model.encoder.sentence_encoder
    with torch.no_grad():
        x = encoder.forward_embedding(TOKENS)[0].transpose(0, 1)
        for layer in encoder.layers:
            # Without static_kv fairseq calls PyTorch's attention, which returns the mean over heads.
            options = dict(need_weights=True, need_head_weights=True, static_kv=True)
            expected.append(layer.self_attn(x, x, x, **options)[1].transpose(0, 1))
            x = layer(x, encoder_padding_mask=None)
            x = x[0] if isinstance(x, tuple) else x
    assert model.n == N
    maps = model.read_maps(TOKENS)
    assert len(maps) == LAYERS and maps[0].shape == (2, HEADS, N, N)
    torch.testing.assert_close(maps, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharing, k, width", [("headwise", 5, 5), ("layerwise", 4, 4), ("none", "3/6,6/2", 6)])
def test_maps_of_a_linformer_have_k_columns(linformer, sharing, k, width):
    model = load_model(linformer(projected_dim=k, sharing=sharing))
    maps = model.read_maps(TOKENS[:1])
    assert max(each.size(-1) for each in maps) == width
    for each in maps:
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]))
    if sharing == "none":
        assert torch.linalg.matrix_rank(maps[0][0]).tolist() == [3, 6]
