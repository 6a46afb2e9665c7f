"""Exported folders in sentence-transformers: the same vectors as those of the encoder."""

import json
import shutil

import numpy as np
import pytest
import torch

from fairseq_linformer.checkpoints.sentence_transformers import Pooling, find_pooling, read_modules, set_pooling
from fairseq_linformer.cli import main

from .encoders import TEXTS, build_tokenizer, save_encoder

LONG = "the lowest tide was new " * 20
"""Longer than n."""


def save(folder, *modules, is_cased=False, **options):
    """A tiny encoder as sentence-transformers saves it; returns its folder."""
    st = pytest.importorskip("sentence_transformers")
    bare = save_encoder(folder / "bare", "bert", head=False)
    if is_cased:
        build_tokenizer("bert-cased").save_pretrained(bare)
    torch.manual_seed(1)
    encoder = pytest.importorskip("sentence_transformers.models").Transformer(str(bare))
    st.SentenceTransformer(modules=[encoder, *modules], device="cpu", **options).save_pretrained(str(folder / "st"))
    return folder / "st"


@pytest.fixture
def models():
    return pytest.importorskip("sentence_transformers.models")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A BERT that embeds sentences."""
    models = pytest.importorskip("sentence_transformers.models")
    return save(tmp_path_factory.mktemp("encoder"), models.Pooling(16), models.Normalize())


def export(encoder, out, *options, k=8):
    main(["convert", str(encoder), f"{out}-fairseq", "--projected-dim", str(k), "--local-window", "0"])
    main(["export", f"{out}-fairseq/model.pt", str(out), *options])


def encode(folder, texts):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    return model, model.encode(texts)


@pytest.mark.slow
def test_the_graph_has_the_same_vectors(encoder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    export(encoder, tmp_path / "out")
    main(["export", str(tmp_path / "out"), str(tmp_path / "onnx"), "--onnx"])
    model, vectors = encode(tmp_path / "out", list(TEXTS))
    tokens = model.tokenize(list(TEXTS))
    session = onnxruntime.InferenceSession(tmp_path / "onnx/onnx/model.onnx")
    inputs = {name: tokens[name].numpy() for name in ("input_ids", "attention_mask")}
    (found,) = session.run(["sentence_embedding"], inputs)
    np.testing.assert_allclose(found, vectors, atol=1e-5)


@pytest.mark.slow
def test_an_encoder_without_pooling_has_no_modules(tmp_path):
    export(save_encoder(tmp_path / "bert", "bert", head=False), tmp_path / "out")
    assert not (tmp_path / "out/modules.json").exists()
    main(["export", str(tmp_path / "out-fairseq/model.pt"), str(tmp_path / "mean"), "--pooling", "mean"])
    assert find_pooling(read_modules(str(tmp_path / "mean"))) == Pooling("mean")


def test_poolings_of_a_graph():
    files = set_pooling({}, "cls", 16)
    assert find_pooling(files) == Pooling("cls")
    for values, expected in (
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}, Pooling("mean")),
        ({"pooling_mode": "cls"}, Pooling("cls")),
        ({"pooling_mode": "cls", "include_prompt": False}, None),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
        ({"pooling_mode": "lasttoken"}, None),
    ):
        assert find_pooling({**files, "1_Pooling/config.json": json.dumps(values).encode()}) == expected


# With k = n the Linformer is the encoder, so the vectors must be the same.
MODULES = {
    "mean": lambda m: [m.Pooling(16), m.Normalize()],
    "dense and norms": lambda m: [m.Pooling(16, "cls"), m.Dense(16, 8), m.LayerNorm(8), m.Normalize()],
    "several poolings": lambda m: [m.Pooling(16, ("mean", "max")), m.Dense(32, 16)],
    "last token": lambda m: [m.Pooling(16, "lasttoken"), m.Dropout(0.1)],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_vectors_are_those_of_the_encoder(name, models, tmp_path):
    folder = save(tmp_path, *MODULES[name](models))
    export(folder, tmp_path / "out", k=32)
    _, expected = encode(folder, list(TEXTS))
    _, found = encode(tmp_path / "out", list(TEXTS))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 6])
def test_settings_are_those_of_the_encoder(version, models, tmp_path):
    """Prompts, similarity, length and lower case, as versions 3 and 6 save them."""
    prompts = {"query": "the low new ", "document": ""}
    options = dict(prompts=prompts, default_prompt_name="query", similarity_fn_name="dot")
    folder = save(tmp_path, models.Pooling(16), is_cased=True, **options)
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    if version == 3:
        settings = {"max_seq_length": 10, "do_lower_case": True}
    else:
        settings["do_lower_case"] = True
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 10}))
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    texts = [*TEXTS, LONG, LONG.upper()]
    export(folder, tmp_path / "out", k=32)
    (theirs, expected), (ours, found) = encode(folder, texts), encode(tmp_path / "out", texts)
    assert theirs.max_seq_length == ours.max_seq_length == 10
    assert ours.prompts == prompts and ours.default_prompt_name == "query" and ours.similarity_fn_name == "dot"
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(ours.similarity(found, found), theirs.similarity(expected, expected), atol=1e-4)


def test_a_longer_linformer_reads_longer_inputs(encoder, tmp_path):
    main(["convert", str(encoder), str(tmp_path / "long"), "--max-positions", "64"])
    settings = json.loads((tmp_path / "long/sentence_transformers/sentence_bert_config.json").read_text())
    assert settings["max_seq_length"] == 64


@pytest.mark.slow
def test_training_in_sentence_transformers_survives_a_round_trip(models, tmp_path):
    """The saved folder has no dict.txt, and its weights are others."""
    export(save(tmp_path, models.Pooling(16), models.Dense(16, 8)), tmp_path / "out")
    model, before = encode(tmp_path / "out", list(TEXTS))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.max_seq_length = 12
    model.save_pretrained(str(tmp_path / "trained"))
    assert not (tmp_path / "trained/dict.txt").exists()
    main(["convert", str(tmp_path / "trained"), str(tmp_path / "back")])
    main(["export", str(tmp_path / "back"), str(tmp_path / "again")])
    texts = [*TEXTS, LONG]
    (_, expected), (_, found) = (encode(tmp_path / name, texts) for name in ("trained", "again"))
    assert np.abs(expected[:3] - before).max() > 1e-2
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
def test_no_module_with_weights_is_left_out(models, tmp_path):
    pytest.importorskip("onnxscript")
    folder = save(tmp_path, models.Pooling(16, "cls"), models.Dense(16, 8))
    main(["convert", str(folder), str(tmp_path / "new")])
    unset = "--pooling must be unset, since the encoder's own vectors are those of its Dense"
    for options, message in (
        (["--onnx"], "Pooling, Dense, which a graph does not"),
        (["--pooling", "mean"], unset),
        (["--pooling", "mean", "--onnx"], unset),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["export", str(tmp_path / "new"), str(tmp_path / "out"), *options])
    assert not (tmp_path / "out").exists()


def test_modules_that_are_rejected(encoder, tmp_path):
    shutil.copytree(encoder, tmp_path / "st")
    path = tmp_path / "st/modules.json"
    modules = json.loads(path.read_text())
    for change, named in (
        ({"type": "sentence_transformers.models.LSTM"}, "only Pooling, Normalize, .*, got LSTM"),
        ({"type": "my.own.Dense"}, "got my.own.Dense"),
        ({"path": ".."}, "got Normalize"),
        ({"type": "sentence_transformers.models.Dense"}, "has no 2_Normalize/model.safetensors"),
    ):
        path.write_text(json.dumps([*modules[:2], {**modules[2], **change}]))
        with pytest.raises(SystemExit, match=named):
            main(["convert", str(tmp_path / "st"), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
