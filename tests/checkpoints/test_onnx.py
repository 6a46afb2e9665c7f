"""ONNX graphs compute the same as PyTorch, for any batch and any length, and short inputs cost little."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")

from torch.onnx._internal.exporter import _onnx_program  # noqa: E402

from fairseq_linformer.checkpoints.export_onnx import _load, export_onnx  # noqa: E402
from fairseq_linformer.checkpoints.transformers_loading import hash_weights  # noqa: E402
from fairseq_linformer.cli import main  # noqa: E402
from fairseq_linformer.huggingface import LinformerModel  # noqa: E402

from .onnx_models import (  # noqa: E402
    N,
    build_masked_lm,
    build_model,
    count_products,
    largest_difference,
    open_graph,
    run_card,
    run_graph,
)

VARIANTS = {
    "headwise": dict(layers=2),
    "local window": dict(local_window=3, projection_init="graded"),
    "key-value, wide local window": dict(sharing="key-value", projected_dim=7, local_window=40),
    "layerwise, pre-norm, k = n": dict(sharing="layerwise", normalize_before=True, projected_dim=N),
    "k per head": dict(sharing="none", projected_dim="8/4"),
    "none, uneven windows": dict(sharing="none", projected_dim=7),
    "uneven mean-pool": dict(projection="mean-pool", projected_dim=7),
    "max-pool": dict(projection="max-pool"),
    "uneven conv": dict(projection="conv", projected_dim=7, layers=2, sharing="layerwise"),
    "random": dict(projection="random"),
    "full attention": dict(projection="none", projected_dim=None),
}
INT8 = ("k per head", "none, uneven windows", "layerwise, pre-norm, k = n")
"""Variants that are also exported to int8."""


def save(model, folder) -> Path:
    model.save_pretrained(folder)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_of_every_variant(variant, tmp_path):
    """In int8 each E and F has 8 bits, also where heads have their own."""
    model = (build_model if variant in INT8 else build_masked_lm)(**VARIANTS[variant])
    export_onnx(save(model, tmp_path / "model"), tmp_path / "fp32")
    assert largest_difference(open_graph(tmp_path / "fp32"), model) < 1e-4
    if variant in INT8:
        export_onnx(tmp_path / "model", tmp_path / "int8", int8=True)
        graph = onnx.load(tmp_path / "int8/onnx/model_quantized.onnx").graph
        found = [w for w in graph.initializer if re.search(r"\.[EF]\b.*weight", w.name) and len(w.dims) > 1]
        assert found and all(weight.data_type == onnx.TensorProto.INT8 for weight in found)
        tokens = torch.randint(4, 45, (4, 30))
        rounded = run_graph(open_graph(tmp_path / "int8"), tokens, torch.ones_like(tokens))
        with torch.no_grad():
            exact = model(tokens).logits
        assert 0 < (exact - rounded).abs().max() < 0.1 * exact.abs().max()


def mean_of_tokens(model, tokens, mask):
    features, weights = model(tokens, attention_mask=mask).last_hidden_state, mask.unsqueeze(-1)
    return (features * weights).sum(1) / weights.sum(1)


FEATURES = {
    None: lambda *inputs: inputs[0](*inputs[1:]).last_hidden_state,
    "cls": lambda *inputs: inputs[0](*inputs[1:]).last_hidden_state[:, 0],
    "mean": mean_of_tokens,
}
NAMES = {None: "last_hidden_state", "cls": "sentence_embedding", "mean": "sentence_embedding"}


@pytest.mark.nightly
@pytest.mark.parametrize("pooling", FEATURES)
def test_features_of_an_encoder_without_a_head(pooling, tmp_path):
    model = build_model(LinformerModel, local_window=3)
    export_onnx(save(model, tmp_path / "model"), tmp_path / "onnx", pooling=pooling)
    session = open_graph(tmp_path / "onnx")
    assert [output.name for output in session.get_outputs()] == [NAMES[pooling]]
    assert largest_difference(session, model, run=FEATURES[pooling]) < 1e-4
    size = 16 if pooling else "2, 4, 16"
    assert run_card(tmp_path / "onnx", tmp_path) == (f"(2, {size})" if pooling else f"({size})")


@pytest.mark.nightly
def test_features_of_a_classifier(tmp_path):
    """Its head is left out."""
    model = build_model()
    main(["export", str(save(model, tmp_path / "model")), str(tmp_path / "onnx"), "--onnx", "--pooling", "mean"])
    assert largest_difference(open_graph(tmp_path / "onnx"), model.base_model, run=mean_of_tokens) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, share",
    [(dict(local_window=4), 1.5), pytest.param(dict(projection_init="normal"), 1.15, marks=pytest.mark.nightly)],
)
def test_short_inputs_cost_what_they_use(options, share, tmp_path, monkeypatch):
    """Matrix products of 32 tokens, from the shapes that ``onnxruntime`` reports, relative to 32 / 500 of 500's. Logits
    are those of PyTorch at every length; longer inputs are rejected. A large graph has a file of weights."""
    monkeypatch.setattr(_onnx_program, "_LARGE_MODEL_THRESHOLD", 1000)
    model = build_masked_lm(max_positions=512, projected_dim=128, embed_dim=32, ffn_embed_dim=128, **options)
    export_onnx(save(model, tmp_path / "model"), tmp_path / "onnx", max_positions=500)
    assert (tmp_path / "onnx/onnx/model.onnx.data").is_file()
    assert largest_difference(open_graph(tmp_path / "onnx"), model, longest=500) < 1e-4
    with pytest.raises(Exception, match="(?i)onnxruntime"):
        run_graph(open_graph(tmp_path / "onnx"), torch.full((1, 501), 5), torch.ones(1, 501, dtype=torch.long))
    products = []
    for length in (32, 500):
        session = open_graph(
            tmp_path / "onnx", enable_profiling=True, profile_file_prefix=str(tmp_path / f"profile{length}")
        )
        tokens = torch.full((1, length), 5)
        run_graph(session, tokens, torch.ones_like(tokens))
        products.append(count_products(json.loads(Path(session.end_profiling()).read_text())))
    short, long = products
    assert 0 < short < share * 32 / 500 * long


@pytest.mark.slow
def test_a_graph_without_a_tokenizer_says_so(tmp_path, capsys):
    """As for a unigram model of sentencepiece, whose tokenizer is slow."""
    export_onnx(save(build_model(), tmp_path / "model"), tmp_path / "onnx")
    assert "no tokenizer.json is written, since the model has no fast tokenizer" in capsys.readouterr().err


def test_scores_are_those_of_the_scored_weights(tmp_path):
    """``Trainer`` keeps what ``config.json`` says of the weights that it started from."""
    model, folder = build_model(), tmp_path / "model"
    model.config.fairseq = {"finetuned": {"weights": hash_weights(str(save(model, folder)))}, "imported": {}}
    assert "finetuned" in _load(save(model, folder), folder).config.fairseq
    model.classifier.out_proj.weight.data += 1
    assert _load(save(model, folder), folder).config.fairseq == {"imported": {}}


@pytest.mark.slow
def test_folder_of_a_checkpoint(classifier, pieces, tmp_path, capsys):
    """AutoConfig and AutoTokenizer read it without this package, as sentence-transformers does first."""
    checkpoint, labels = classifier / "checkpoint_last.pt", pieces / "label" / "dict.txt"
    words = [str(checkpoint), str(tmp_path / "folder"), "--head", "animal", "--labels", str(labels)]
    main(["export", "--onnx", *words])
    assert "README.md" in capsys.readouterr().out
    card = (tmp_path / "folder/README.md").read_text()
    assert "print([['animal: cat', 'dog'][i] for i in logits.argmax(-1)])" in card and "1.18 or later" in card
    script = """
import sys
sys.modules["fairseq_linformer"] = None
from transformers import AutoConfig, AutoTokenizer
config = AutoConfig.from_pretrained("folder", trust_remote_code=True)
print(config.model_type, config.num_labels, config.onnx["max_positions"])
print(AutoTokenizer.from_pretrained("folder", trust_remote_code=True)("the cat")["input_ids"])
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == "linformer 2 16" and run.stdout.splitlines()[1].startswith("[0, ")
