"""Exported folders in sentence-transformers: the same vectors as pooling by hand."""

import json

import numpy as np
import pytest
import torch

from fairseq_linformer.checkpoints.sentence_transformers import read_pooling, write_modules
from fairseq_linformer.cli import main

from .encoders import TEXTS, save_encoder

MEAN = {"pooling": "mean", "normalize": True}
LONG = "the lowest tide was new " * 20
"""Longer than n."""


@pytest.fixture
def encoder(tmp_path):
    """A BERT that embeds sentences."""
    folder = save_encoder(tmp_path / "bert", "bert", head=False)
    write_modules(folder, MEAN, 16, 32)
    return folder


def export(encoder, out, *options):
    main(["convert", str(encoder), f"{out}-fairseq", "--projected-dim", "8"])
    main(["export", f"{out}-fairseq/model.pt", str(out), *options])


def encode(folder, texts):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    return model, model.encode(texts)


def features(folder, text):
    """(n, d) features of a sentence on its own."""
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder, trust_remote_code=True)(**tokens).last_hidden_state[0]


@pytest.mark.slow
def test_vectors_are_normalized_means(encoder, tmp_path):
    export(encoder, tmp_path / "out")
    texts = [*TEXTS, LONG]
    model, vectors = encode(tmp_path / "out", texts)
    assert model.max_seq_length == 32 and vectors.shape == (4, 16)
    for text, vector in zip(texts, vectors):
        mean = features(tmp_path / "out", text).mean(0)
        np.testing.assert_allclose(vector, mean / mean.norm(), atol=1e-6)
    assert "sentence_transformers" in (tmp_path / "out/README.md").read_text()


@pytest.mark.slow
def test_the_graph_has_the_same_vectors(encoder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    export(encoder, tmp_path / "out")
    main(["export", str(tmp_path / "out"), str(tmp_path / "onnx"), "--onnx"])
    model, vectors = encode(tmp_path / "out", list(TEXTS))
    tokens = model.tokenize(list(TEXTS))
    session = onnxruntime.InferenceSession(tmp_path / "onnx/model.onnx")
    inputs = {name: tokens[name].numpy() for name in ("input_ids", "attention_mask")}
    (found,) = session.run(["sentence_embedding"], inputs)
    np.testing.assert_allclose(found, vectors, atol=1e-5)


@pytest.mark.slow
def test_another_pooling(encoder, tmp_path):
    """The mode of the option; normalized as the encoder's vectors are."""
    export(encoder, tmp_path / "out", "--pooling", "cls")
    _, vectors = encode(tmp_path / "out", list(TEXTS))
    for text, vector in zip(TEXTS, vectors):
        first = features(tmp_path / "out", text)[0]
        np.testing.assert_allclose(vector, first / first.norm(), atol=1e-6)


@pytest.mark.slow
def test_an_encoder_without_pooling_has_no_modules(tmp_path):
    export(save_encoder(tmp_path / "bert", "bert", head=False), tmp_path / "out")
    assert not (tmp_path / "out/modules.json").exists()
    main(["export", str(tmp_path / "out-fairseq/model.pt"), str(tmp_path / "mean"), "--pooling", "mean"])
    assert read_pooling(str(tmp_path / "mean")) == {"pooling": "mean", "normalize": False}


@pytest.mark.parametrize(
    "pooling, expected",
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}, MEAN),
        ({"pooling_mode": "cls"}, {"pooling": "cls", "normalize": True}),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
        ({"pooling_mode": "lasttoken"}, None),
    ],
)
def test_poolings_of_other_versions(tmp_path, pooling, expected):
    write_modules(tmp_path, MEAN, 16, 32)
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    assert read_pooling(str(tmp_path)) == expected


def test_other_modules_are_not_pooled_features(tmp_path):
    write_modules(tmp_path, MEAN, 16, 32)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert read_pooling(str(tmp_path)) is None
