"""``read_maps`` against the attention weights of fairseq and transformers."""

import argparse
import math

import pytest
import torch

from fairseq_linformer.analysis.attention_model import projection_matrices
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.singular import numerical_rank, singular_values

from .conftest import HEADS, LAYERS, N


def read_maps(model, tokens, padding=None):
    maps_by_layer = {}
    model.read_maps(tokens, lambda layer, maps: maps_by_layer.update({layer: maps}), padding)
    return maps_by_layer


def build_batch():
    """Two sentences of N and 11 tokens, and their padding mask."""
    tokens = torch.randint(4, 20, (2, N), generator=torch.Generator().manual_seed(0))
    tokens[1, 11:] = 1
    return tokens, tokens.eq(1)


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
    tokens, padding = build_batch()
    expected = []
    encoder = fairseq_model.encoder.sentence_encoder
    with torch.no_grad():
        x = encoder.forward_embedding(tokens)[0] * (~padding).unsqueeze(-1)
        x = x.transpose(0, 1)
        for layer in encoder.layers:
            # Without static_kv fairseq calls PyTorch's attention, which returns the mean over heads.
            options = dict(need_weights=True, need_head_weights=True, static_kv=True)
            expected.append(layer.self_attn(x, x, x, key_padding_mask=padding, **options)[1].transpose(0, 1))
            x = layer(x, encoder_padding_mask=padding)
            x = x[0] if isinstance(x, tuple) else x
    assert (model.kind, model.layers, model.heads, model.n) == ("roberta", LAYERS, HEADS, N)
    maps = read_maps(model, tokens, padding)
    for layer in range(LAYERS):
        assert maps[layer].shape == (2, HEADS, N, N)
        for b, length in enumerate((N, 11)):
            torch.testing.assert_close(maps[layer][b, :, :length], expected[layer][b, :, :length], rtol=0, atol=1e-5)
        assert maps[layer][1, :, :, 11:].abs().max() == 0


@pytest.mark.parametrize("sharing, k, width", [("headwise", 5, 5), ("layerwise", 4, 4), ("none", "3/6,6/2", 6)])
def test_maps_of_a_linformer_have_k_columns(linformer, sharing, k, width):
    model = load_model(linformer(projected_dim=k, sharing=sharing))
    tokens, _ = build_batch()
    maps_by_layer = read_maps(model, tokens[:1])
    assert model.kind == "linformer" and max(maps.size(-1) for maps in maps_by_layer.values()) == width
    for maps in maps_by_layer.values():
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))
    if sharing == "none":
        assert numerical_rank(singular_values(maps_by_layer[0]), N)[0].tolist() == [3, 6]
    names = list(projection_matrices(model.encoder))
    assert (
        names
        == {
            "headwise": ["layers.0.E", "layers.0.F", "layers.1.E", "layers.1.F"],
            "layerwise": ["E"],
            "none": [f"layers.{i}.{which}.heads.{j}" for i in (0, 1) for which in "EF" for j in (0, 1)],
        }[sharing]
    )


def test_maps_of_transformers_are_softmax_of_queries_and_keys(bert):
    model = load_model(str(bert / "bert"))
    assert (model.kind, model.layers, model.heads, model.n) == ("transformers", 2, 2, 24)
    assert (model.bos, model.eos, model.pad) == (2, 3, 0)
    tokens = torch.tensor([[2, 5, 6, 7, 8, 3, 0, 0]])
    padding = tokens.eq(0)
    maps = read_maps(model, tokens, padding)
    with torch.no_grad():
        x = model.module.embeddings(tokens)
        attention = model.module.encoder.layer[0].attention.self
        for head in range(2):
            part = slice(8 * head, 8 * head + 8)
            scores = attention.query(x)[0, :, part] @ attention.key(x)[0, :, part].T / math.sqrt(8)
            expected = torch.softmax(scores[:6, :6], -1)
            torch.testing.assert_close(maps[0][0, head, :6, :6], expected, rtol=0, atol=1e-5)


def test_n_excludes_the_padding_rows_of_a_transformers_roberta(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    RobertaModel(
        RobertaConfig(
            vocab_size=20,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=14,
            pad_token_id=1,
        )
    ).save_pretrained(tmp_path)
    model = load_model(str(tmp_path), tokenizer=False)
    assert model.n == 12 and read_maps(model, torch.full((1, 12), 5))[0].shape == (1, 2, 12, 12)


@pytest.mark.slow
def test_exported_linformer_has_the_maps_of_its_checkpoint(linformer, tmp_path):
    from fairseq_linformer.checkpoints.huggingface import to_huggingface

    path = linformer(projected_dim=5, sharing="headwise")
    to_huggingface(path, tmp_path / "folder")
    original, exported = load_model(path), load_model(str(tmp_path / "folder"))
    assert (exported.kind, exported.layers, exported.heads, exported.n) == ("linformer", LAYERS, HEADS, N)
    assert (exported.bos, exported.eos, exported.pad) == (0, 2, 1)
    assert exported.tokenizer("a dog")["input_ids"] == original.tokenizer("a dog")["input_ids"]
    tokens, padding = build_batch()
    maps, expected = read_maps(exported, tokens, padding), read_maps(original, tokens, padding)
    for layer in range(LAYERS):
        torch.testing.assert_close(maps[layer], expected[layer], rtol=0, atol=1e-6)
