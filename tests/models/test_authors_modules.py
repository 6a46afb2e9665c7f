"""Comparison with the authors' own plugin, which is in fairseq's examples."""

import argparse
import importlib
import sys
from pathlib import Path

import fairseq
import pytest
import torch

from fairseq_linformer.modules import LinearProjection

from .test_model import SMALL, Task, build, tokens, without_dropout

EXAMPLE = Path(fairseq.__file__).parent / "examples" / "linformer"


@pytest.fixture(scope="module")
def authors_module():
    """The authors' encoder, imported without registering their model under the same name."""
    if not EXAMPLE.exists():
        pytest.skip("this fairseq has no examples/linformer")
    folder = EXAMPLE / "linformer_src" / "modules"
    package = "authors_linformer_modules"
    spec = importlib.util.spec_from_file_location(
        package, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    sys.modules[package] = importlib.util.module_from_spec(spec)
    return importlib.import_module(package + ".linformer_sentence_encoder").LinformerTransformerEncoder


def build_pair(authors_module, sharing):
    """The authors' encoder and ours with the same weights."""
    task = Task()
    shared_kv, shared_layer = sharing != "headwise", sharing == "layerwise"
    args = argparse.Namespace(
        **{key: value for key, value in SMALL.items() if key != "projected_dim"},
        compressed=2,
        max_positions=16,
        shared_kv_compressed=int(shared_kv),
        shared_layer_kv_compressed=int(shared_layer),
        freeze_compress=0,
    )
    fairseq.models.roberta.model.base_architecture(args)
    embed = torch.nn.Embedding(len(task.source_dictionary), 16, 1)
    their = authors_module(args, task.source_dictionary, embed).eval()
    their.apply(fairseq.models.roberta.model.init_bert_params)
    ours = build(
        task, sharing=sharing, projection_init="normal", **{**without_dropout(), "projected_dim": 8}
    ).encoder.sentence_encoder.eval()
    state = their.state_dict()
    for i, layer in enumerate(ours.layers):
        if layer.self_attn.E is not None:
            layer.self_attn.E.load_state_dict({"weight": state[f"layers.{i}.self_attn.compress_k.weight"]})
        if layer.self_attn.F is not None:
            layer.self_attn.F.load_state_dict({"weight": state[f"layers.{i}.self_attn.compress_v.weight"]})
    if ours.E is not None:
        ours.E.load_state_dict({"weight": state["layers.0.self_attn.compress_k.weight"]})
    missing, _ = ours.load_state_dict(
        {k: v for k, v in state.items() if "compress" not in k and k != "version"}, strict=False
    )
    assert all("E." in key or "F." in key for key in missing)
    return their, ours


@pytest.mark.parametrize("sharing", ["headwise", "key-value", "layerwise"])
@pytest.mark.parametrize("length", [16, 11, 3])
def test_features_equal_the_authors_without_padding(authors_module, sharing, length):
    their, ours = build_pair(authors_module, sharing)
    batch = tokens(length, length)
    expected = their(batch)["encoder_out"][0].transpose(0, 1)
    torch.testing.assert_close(ours(batch)[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharing", ["headwise", "key-value", "layerwise"])
def test_padding_changes_only_the_authors_features(authors_module, sharing):
    their, ours = build_pair(authors_module, sharing)
    for projection in ours.modules():
        if isinstance(projection, LinearProjection):
            projection.set_(100 * projection())
    for name, p in their.named_parameters():
        if "compress" in name and not (sharing == "layerwise" and "layers.0" not in name):
            p.data *= 100
    alone = tokens(7)
    padded = torch.nn.functional.pad(alone, (0, 9), value=1)
    leak = (their(alone)["encoder_out"][0] - their(padded)["encoder_out"][0][:7]).abs().max()
    assert leak > 1e-3
    assert (ours(alone)[0] - ours(padded)[0][:, :7]).abs().max() <= 1e-5
