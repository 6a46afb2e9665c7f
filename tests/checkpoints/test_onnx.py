"""ONNX graphs compute the same as PyTorch, for any batch and any length, and short inputs cost little."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")

from torch.onnx._internal.exporter import _onnx_program  # noqa: E402

from fairseq_linformer.checkpoints import onnx_graph  # noqa: E402
from fairseq_linformer.checkpoints.export_onnx import export_onnx  # noqa: E402
from fairseq_linformer.cli import main  # noqa: E402
from fairseq_linformer.huggingface import LinformerForSequenceClassification, LinformerModel  # noqa: E402

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


def check_rounding(folder, model):
    """Rounding changes logits a little."""
    tokens = torch.randint(4, 45, (4, 30))
    with torch.no_grad():
        exact = model(tokens).logits
    rounded = run_graph(open_graph(folder), tokens, torch.ones_like(tokens))
    assert 0 < (exact - rounded).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "local window" else pytest.mark.nightly)
        for name in VARIANTS
    ],
)
def test_logits(variant, tmp_path):
    """In int8 each E and F has 8 bits, also where heads have their own."""
    model = (build_model if variant in INT8 else build_masked_lm)(**VARIANTS[variant])
    export_onnx(save(model, tmp_path / "model"), tmp_path / "fp32")
    assert largest_difference(open_graph(tmp_path / "fp32"), model) < 1e-4
    if variant in INT8:
        export_onnx(tmp_path / "model", tmp_path / "int8", int8=True)
        graph = onnx.load(tmp_path / "int8/onnx/model_quantized.onnx").graph
        found = [w for w in graph.initializer if re.search(r"\.[EF]\b.*weight", w.name) and len(w.dims) > 1]
        assert found and all(weight.data_type == onnx.TensorProto.INT8 for weight in found)
        check_rounding(tmp_path / "int8", model)


def mean_of_tokens(model, tokens, mask):
    features, weights = model(tokens, attention_mask=mask).last_hidden_state, mask.unsqueeze(-1)
    return (features * weights).sum(1) / weights.sum(1)


FEATURES = {
    None: lambda *inputs: inputs[0](*inputs[1:]).last_hidden_state,
    "cls": lambda *inputs: inputs[0](*inputs[1:]).last_hidden_state[:, 0],
    "mean": mean_of_tokens,
}
NIGHTLY_POOLS = [pytest.param(pooling, marks=pytest.mark.nightly) for pooling in (None, "cls")]
NAMES = {None: "last_hidden_state", "cls": "sentence_embedding", "mean": "sentence_embedding"}


@pytest.mark.parametrize("pooling", [pytest.param("mean", marks=pytest.mark.slow), *NIGHTLY_POOLS])
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
def test_short_inputs_cost_what_they_use(options, share, tmp_path):
    """Matrix products of 32 tokens, from the shapes that ``onnxruntime`` reports, relative to 32 / 512 of 512's."""
    model = build_masked_lm(max_positions=512, projected_dim=128, embed_dim=32, ffn_embed_dim=128, **options)
    export_onnx(save(model, tmp_path / "model"), tmp_path / "onnx")
    products = []
    for length in (32, 512):
        session = open_graph(
            tmp_path / "onnx", enable_profiling=True, profile_file_prefix=str(tmp_path / f"profile{length}")
        )
        tokens = torch.full((1, length), 5)
        run_graph(session, tokens, torch.ones_like(tokens))
        products.append(count_products(json.loads(Path(session.end_profiling()).read_text())))
    short, long = products
    assert 0 < short < share * 32 / 512 * long


@pytest.mark.slow
def test_int8_is_a_quarter(tmp_path):
    options = dict(vocab_size=2000, embed_dim=128, ffn_embed_dim=512, layers=1, num_labels=3)
    model = build_model(LinformerForSequenceClassification, **options)
    export_onnx(save(model, tmp_path / "model"), tmp_path / "int8", int8=True)
    graph = tmp_path / "int8/onnx/model_quantized.onnx"
    assert graph.stat().st_size < 0.35 * 4 * model.num_parameters()  # 4 bytes per parameter in fp32
    assert str(Path(onnx_graph.__file__).parent).encode() not in graph.read_bytes()
    types = defaultdict(set)
    for weight in onnx.load(graph).graph.initializer:
        types[tuple(weight.dims)].add(weight.data_type)
    assert types[(16, N)] == {onnx.TensorProto.INT8, onnx.TensorProto.FLOAT}  # E and F; which tokens windows read
    assert types[(128, 512)] == {onnx.TensorProto.INT8} and types[(2000, 128)] == {onnx.TensorProto.INT8}
    check_rounding(tmp_path / "int8", model)
    assert "| weights of the graph | int8" in (tmp_path / "int8" / "README.md").read_text()


@pytest.mark.slow
def test_shorter_graph_and_external_weights(tmp_path, monkeypatch):
    """A shorter graph is smaller, equals the model, and rejects longer inputs; a large one has a file of weights."""
    monkeypatch.setattr(_onnx_program, "_LARGE_MODEL_THRESHOLD", 1000)
    model = build_model()
    export_onnx(save(model, tmp_path / "model"), tmp_path / "onnx", max_positions=40)
    assert (tmp_path / "onnx/onnx/model.onnx.data").is_file()
    session = open_graph(tmp_path / "onnx")
    assert largest_difference(session, model, longest=40) < 1e-4
    with pytest.raises(Exception, match="(?i)onnxruntime"):
        run_graph(session, torch.full((1, 41), 5), torch.ones(1, 41, dtype=torch.long))


@pytest.mark.slow
def test_folder_of_a_checkpoint(classifier, pieces, tmp_path, capsys):
    """Its card runs without torch. AutoConfig and AutoTokenizer read it without this package, as optimum and
    sentence-transformers do first."""
    checkpoint, labels = classifier / "checkpoint_last.pt", pieces / "label" / "dict.txt"
    words = [str(checkpoint), str(tmp_path / "folder"), "--head", "animal", "--labels", str(labels)]
    main(["export", "--onnx", *words])
    assert "README.md" in capsys.readouterr().out
    printed = run_card(tmp_path / "folder", tmp_path)
    assert re.fullmatch(r"\['(animal: cat|dog)', '(animal: cat|dog)'\]", printed)
    card = (tmp_path / "folder/README.md").read_text()
    assert "1.18 or later" in card and "`ORTModelForSequenceClassification.from_pretrained(" in card
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
