"""Encoders of ``transformers`` as fairseq checkpoints: the same features, logits and token IDs."""

import json
import pickle
import re

import pytest
import torch

transformers = pytest.importorskip("transformers")

from fairseq import checkpoint_utils  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from fairseq_linformer.checkpoints.files import get_cfg_section, read_checkpoint  # noqa: E402
from fairseq_linformer.checkpoints.from_transformers import from_transformers  # noqa: E402
from fairseq_linformer.checkpoints.huggingface import from_huggingface, to_huggingface  # noqa: E402
from fairseq_linformer.checkpoints.provenance import collect_provenance  # noqa: E402
from fairseq_linformer.checkpoints.transformers_vocabulary import read_vocabulary  # noqa: E402
from fairseq_linformer.cli import main  # noqa: E402
from fairseq_linformer.data.tokenizer import load_tokenizer  # noqa: E402
from fairseq_linformer.data.tokenizer_files import find_tokenizer_files  # noqa: E402
from fairseq_linformer.models import LinformerRobertaModel, RobertaEpsModel  # noqa: E402

from .encoders import TEXTS, save_encoder  # noqa: E402

FAMILIES = ("bert", "roberta", "distilbert", "xlm-roberta")
ROUNDING = dict(rtol=0, atol=2e-5)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Encoders by family, and by whether they have a masked LM head."""
    root = tmp_path_factory.mktemp("encoders")
    return {
        (family, head): save_encoder(root / f"{family}-{head}", family, head)
        for family in FAMILIES
        for head in (True, False)
    }


def load(folder):
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(folder / "model.pt")], arg_overrides={"data": str(folder)}
    )
    return model.eval()


def encode(folder, texts):
    """The inputs of a converted model: (B, n), padded."""
    ids, sizes = load_tokenizer(find_tokenizer_files(folder), folder / "dict.txt").encode(texts)
    rows = [torch.cat([torch.tensor([0]), row]) for row in torch.tensor(ids.astype("int64")).split(sizes.tolist())]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]], ids=["padded", "one"])
@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_and_logits_equal(folders, family, head, texts, tmp_path):
    source, out = folders[family, head], tmp_path / "out"
    from_transformers(str(source), out, arch="roberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    inputs = tokenizer(list(texts), padding=True, return_tensors="pt", return_token_type_ids=False)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(source).eval()
    tokens, ours = encode(out, texts), load(out)
    assert tokens.shape == inputs["input_ids"].shape
    real = tokens.ne(1)
    assert torch.equal(real, inputs["attention_mask"].bool())
    with torch.no_grad():
        expected = theirs.base_model(**inputs).last_hidden_state
        torch.testing.assert_close(ours(tokens, features_only=True)[0][real], expected[real], **ROUNDING)
        if head:
            logits = theirs(**inputs).logits
            order = read_vocabulary(str(source), logits.size(-1)).order
            torch.testing.assert_close(ours(tokens)[0][real], logits[..., order][real], rtol=1e-4, atol=1e-4)
            assert torch.equal(order[tokens][real], inputs["input_ids"][real])


@pytest.mark.parametrize("local_window", [0, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_linformer_with_k_equal_to_n_is_the_encoder(folders, family, local_window, tmp_path):
    source = folders[family, True]
    from_transformers(str(source), tmp_path / "a", arch="roberta")
    from_transformers(str(source), tmp_path / "b", projected_dim=32, local_window=local_window)
    tokens = encode(tmp_path / "a", TEXTS)
    assert torch.equal(tokens, encode(tmp_path / "b", TEXTS))
    theirs, ours = load(tmp_path / "a"), load(tmp_path / "b")
    real = tokens.ne(1)
    torch.testing.assert_close(ours(tokens)[0][real], theirs(tokens)[0][real], rtol=1e-4, atol=1e-4)


def test_export_and_import_preserve_epsilon(folders, tmp_path):
    out = tmp_path / "a"
    checkpoint = from_transformers(str(folders["bert", True]), out, projected_dim=8, sharing="key-value")
    assert get_cfg_section(checkpoint, "model")["layer_norm_eps"] == 1e-12
    ours = load(out)
    assert {m.eps for m in ours.modules() if hasattr(m, "normalized_shape")} == {1e-12}
    to_huggingface(out / "model.pt", tmp_path / "hf")
    exported = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", trust_remote_code=True).eval()
    assert {m.eps for m in exported.modules() if isinstance(m, torch.nn.LayerNorm)} == {1e-12}
    tokens = encode(out, TEXTS)
    real = tokens.ne(1)
    logits = ours(tokens)[0]
    torch.testing.assert_close(exported(tokens).logits[real], logits[real], rtol=1e-5, atol=1e-5)
    from_huggingface(tmp_path / "hf", tmp_path / "back")
    assert torch.equal(load(tmp_path / "back")(tokens)[0], logits)
    assert torch.equal(encode(tmp_path / "back", TEXTS), tokens)
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "bert-True" in card and "| masked LM head | imported |" in card


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_exported_tokenizer_is_the_tokenizer(family, folders, tmp_path):
    out = tmp_path / "a"
    from_transformers(str(folders[family, True]), out, projected_dim=8)
    to_huggingface(out / "model.pt", tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.is_fast and tokenizer.model_max_length == 32
    assert torch.equal(tokenizer(list(TEXTS), padding=True, return_tensors="pt")["input_ids"], encode(out, TEXTS))
    hub = LinformerRobertaModel.from_pretrained(str(out))
    assert tokenizer("low tide", "new tide")["input_ids"] == hub.encode("low tide", "new tide").tolist()
    assert hub.decode(hub.encode("low tide")) == "low tide"
    assert tokenizer.decode(tokenizer("low tide")["input_ids"][1:-1]) == "low tide"


def test_roberta_keeps_fairseqs_architecture(folders, tmp_path):
    from_transformers(str(folders["roberta", True]), tmp_path / "a", arch="roberta")
    from_transformers(str(folders["bert", True]), tmp_path / "b", arch="roberta")
    a, b = (get_cfg_section(read_checkpoint(tmp_path / each / "model.pt"), "model") for each in "ab")
    assert a["_name"] == "roberta" and "layer_norm_eps" not in a
    assert b["_name"] == "roberta_eps" and b["layer_norm_eps"] == 1e-12
    model = load(tmp_path / "b")
    model.check_options(b)
    with pytest.raises(ValueError, match="must have layer_norm_eps 1e-12, got 1e-05"):
        model.check_options(a)
    hub = RobertaEpsModel.from_pretrained(str(tmp_path / "b"))
    assert hub.decode(hub.encode("low tide")) == "low tide"


def test_missing_head_is_recorded(folders, tmp_path, capsys):
    main(["convert", "from-transformers", str(folders["bert", False]), str(tmp_path / "a"), "--local-window", "4"])
    printed = capsys.readouterr().out
    assert "new and untrained" in printed and "--layer-norm-eps 1e-12" in printed and "--projected-dim 8" in printed
    assert (
        "--arch linformer_roberta --max-positions" in printed and "--encoder-layers 2 --encoder-embed-dim 16" in printed
    )
    assert "--activation-fn" not in printed and "--dropout" not in printed  # implied, and not of the shape
    checkpoint = read_checkpoint(tmp_path / "a" / "model.pt")
    imported = collect_provenance(checkpoint)["imported"]
    assert imported["lm_head"] == "new, untrained" and imported["model_type"] == "bert"
    assert len(imported["sha256"]) == 64
    other = from_transformers(str(folders["bert", True]), tmp_path / "b")
    assert other["provenance"]["imported"]["lm_head"] == "imported"


def test_n_can_be_changed(folders, tmp_path):
    for arch in ("roberta", "linformer_roberta"):
        from_transformers(str(folders["distilbert", True]), tmp_path / arch, arch=arch, max_positions=64)
        assert load(tmp_path / arch).max_positions() == 64


def edit(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def remove_weights(folder):
    (folder / "model.safetensors").unlink()


def pickle_weights(folder):
    remove_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def write_index(folder):
    index = {"metadata": {}, "weight_map": {"bert.pooler.weight": "shard.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def drop_token(folder):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocab = content["model"]["vocab"]
    del vocab[max(vocab, key=vocab.__getitem__)]
    path.write_text(json.dumps(content))


def drop_from_weights(folder, *names):
    path = folder / "model.safetensors"
    save_file({key: value for key, value in load_file(path).items() if key not in names}, path, {"format": "pt"})


BROKEN = {
    "no decoder": (lambda f: edit(f, tie_word_embeddings=False), "head of .* is incomplete"),
    "half a head": (lambda f: drop_from_weights(f, "cls.predictions.bias"), "head of .* is incomplete"),
    "more layers": (lambda f: edit(f, num_hidden_layers=1), "is unexpected"),
    "quantized": (lambda f: edit(f, quantization_config={"quant_method": "x"}), "quantized"),
    "no number": (lambda f: edit(f, hidden_size="abc"), "hidden_size"),
    "no JSON": (lambda f: (f / "config.json").write_text("[["), "cannot load"),
    "no heads": (lambda f: edit(f, num_attention_heads=0), "cannot load"),
    "shards": (lambda f: (f / "model.safetensors").rename(f / "x") and write_index(f), "has no shard.safetensors"),
    "relative": (lambda f: edit(f, position_embedding_type="relative_key"), "position_embedding_type"),
    "other type": (lambda f: edit(f, model_type="mpnet"), "relative position bias"),
    "activation": (lambda f: edit(f, hidden_act="silu"), "activation"),
    "decoder": (lambda f: edit(f, is_decoder=True), "is_decoder"),
    "epsilon": (lambda f: edit(f, layer_norm_eps=1.0), "layer_norm_eps of .* must be at least 1e-15 and below 1"),
    "no epsilon": (lambda f: edit(f, layer_norm_eps=0.0), "layer_norm_eps of .* must be at least 1e-15 and below 1"),
    "layers": (lambda f: edit(f, num_hidden_layers=3), "is missing"),
    "width": (lambda f: edit(f, intermediate_size=24), "has another shape"),
    "no weights": (remove_weights, "has no model.safetensors"),
    "pickle": (pickle_weights, "convert it to safetensors"),
    "vocabulary": (drop_token, "one token per embedding"),
    "truncated": (lambda f: (f / "model.safetensors").write_bytes(b"\x08"), "transformers cannot load"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_unusable_encoder_is_rejected(name, tmp_path):
    spoil, message = BROKEN[name]
    folder = save_encoder(tmp_path / "encoder", "bert", True)
    spoil(folder)
    with pytest.raises(SystemExit) as end:
        main(["convert", "from-transformers", str(folder), str(tmp_path / "out")])
    assert re.search(message, end.value.code) and str(folder) in end.value.code
    assert len(end.value.code.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_shards_are_hashed(tmp_path):
    checksums = []
    for seed in (1, 2):
        folder = save_encoder(tmp_path / str(seed), "bert", True)
        model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.bert.embeddings.word_embeddings.weight)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="2kB")
        assert len(list(folder.glob("*.safetensors"))) > 1
        new = from_transformers(str(folder), tmp_path / f"out{seed}")
        checksums.append(new["provenance"]["imported"]["sha256"])
    assert checksums[0] != checksums[1]


def test_distilbert_has_a_fixed_epsilon(tmp_path):
    """transformers ignores the key."""
    folder = save_encoder(tmp_path / "encoder", "distilbert", True)
    edit(folder, layer_norm_eps=1e-3)
    from_transformers(str(folder), tmp_path / "out")
    assert load(tmp_path / "out").args.layer_norm_eps == 1e-12


def test_roberta_needs_a_position(tmp_path):
    folder = save_encoder(tmp_path / "encoder", "roberta", True)
    edit(folder, max_position_embeddings=2)
    with pytest.raises(ValueError, match="max_position_embeddings of .* must be above 2, got 2"):
        from_transformers(str(folder), tmp_path / "out")


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda c: c.update(post_processor=None), "must add <s> before and </s> after"),
        (lambda c: c["model"]["vocab"].update({"a b": c["model"]["vocab"].pop("q")}), "no white space.* 'a b'"),
    ],
    ids=["no cls", "space"],
)
def test_unusable_tokenizer_is_rejected(spoil, message, tmp_path):
    folder = save_encoder(tmp_path / "encoder", "roberta", True)
    content = json.loads((folder / "tokenizer.json").read_text())
    spoil(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    with pytest.raises(ValueError, match=message):
        from_transformers(str(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_current_folder_has_a_name(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(folders["bert", True])
    new = from_transformers(".", tmp_path / "out")
    assert new["provenance"]["imported"]["name"] == "bert-True"


def test_no_segments(tmp_path):
    folder = save_encoder(tmp_path / "encoder", "bert", True)
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(0, 16)
    save_file(weights, path, {"format": "pt"})
    edit(folder, type_vocab_size=0)
    from_transformers(str(folder), tmp_path / "out")
    assert load(tmp_path / "out").max_positions() == 32
