"""Encoders of ``transformers`` as fairseq checkpoints: the same features, logits and token IDs."""

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from fairseq_linformer.checkpoints.convert import convert, read_model  # noqa: E402
from fairseq_linformer.checkpoints.export import export_checkpoint  # noqa: E402
from fairseq_linformer.checkpoints.files import get_cfg_section, read_checkpoint  # noqa: E402
from fairseq_linformer.checkpoints.identify import identify  # noqa: E402
from fairseq_linformer.checkpoints.transformers_tokenizer import read_vocabulary  # noqa: E402
from fairseq_linformer.cli import main  # noqa: E402
from fairseq_linformer.data.tokenizer import load_tokenizer  # noqa: E402
from fairseq_linformer.data.tokenizer_files import find_tokenizer_files  # noqa: E402
from fairseq_linformer.models import LinformerRobertaModel  # noqa: E402

from ..fairseq_commands import load_model  # noqa: E402
from .encoders import TEXTS, WORDS, save_encoder  # noqa: E402

FAMILIES = ("bert", "roberta", "distilbert", "xlm-roberta", "electra", "ernie", "data2vec-text")
ROUNDING = dict(rtol=0, atol=2e-5)


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    """A function from the family of an encoder, and whether it has a masked LM head, to its folder."""
    root = tmp_path_factory.mktemp("encoders")
    return cache(lambda family, head: save_encoder(root / f"{family}-{head}", family, head))


def load(folder):
    return load_model(folder / "model.pt", data=str(folder))


def encode(folder, texts):
    """The inputs of a converted model: (B, n), padded."""
    ids, sizes = load_tokenizer(find_tokenizer_files(folder), folder / "dict.txt").encode(texts)
    rows = [torch.cat([torch.tensor([0]), row]) for row in torch.tensor(ids.astype("int64")).split(sizes.tolist())]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_and_logits_equal(save, family, head, tmp_path):
    source, out = save(family, head), tmp_path / "out"
    convert(source, out, arch="roberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    inputs = tokenizer(list(TEXTS), padding=True, return_tensors="pt", return_token_type_ids=False)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(source).eval()
    tokens, ours = encode(out, TEXTS), load(out)
    assert tokens.shape == inputs["input_ids"].shape
    real = tokens.ne(1)
    assert torch.equal(real, inputs["attention_mask"].bool())
    with torch.no_grad():
        expected = theirs.base_model(**inputs).last_hidden_state
        torch.testing.assert_close(ours(tokens, features_only=True)[0][real], expected[real], **ROUNDING)
        if head:
            logits = theirs(**inputs).logits
            order, _ = read_vocabulary(str(source), logits.size(-1))
            torch.testing.assert_close(ours(tokens)[0][real], logits[..., order][real], rtol=1e-4, atol=1e-4)
            assert torch.equal(order[tokens][real], inputs["input_ids"][real])


def test_export_and_import_preserve_epsilon(save, tmp_path):
    out = tmp_path / "a"
    checkpoint, _ = convert(save("bert", True), out, projected_dim=8, sharing="key-value")
    assert get_cfg_section(checkpoint, "model")["layer_norm_eps"] == 1e-12
    ours = load(out)
    assert {m.eps for m in ours.modules() if hasattr(m, "normalized_shape")} == {1e-12}
    export_checkpoint(out / "model.pt", tmp_path / "hf")
    exported = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", trust_remote_code=True).eval()
    assert {m.eps for m in exported.modules() if isinstance(m, torch.nn.LayerNorm)} == {1e-12}
    tokens = encode(out, TEXTS)
    real = tokens.ne(1)
    logits = ours(tokens)[0]
    torch.testing.assert_close(exported(tokens).logits[real], logits[real], rtol=1e-5, atol=1e-5)
    convert(tmp_path / "hf", tmp_path / "back")
    assert torch.equal(load(tmp_path / "back")(tokens)[0], logits)
    assert torch.equal(encode(tmp_path / "back", TEXTS), tokens)
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "A RoBERTa with the linear attention of the [Linformer]" in card
    assert "come from bert-True (SHA-256" in card


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_exported_tokenizer_is_the_tokenizer(family, save, tmp_path):
    out = tmp_path / "a"
    convert(save(family, True), out)
    export_checkpoint(out / "model.pt", tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.is_fast and tokenizer.model_max_length == 32
    assert torch.equal(tokenizer(list(TEXTS), padding=True, return_tensors="pt")["input_ids"], encode(out, TEXTS))
    hub = LinformerRobertaModel.from_pretrained(str(out))
    assert tokenizer("low tide", "new tide")["input_ids"] == hub.encode("low tide", "new tide").tolist()
    assert hub.decode(hub.encode("low tide")) == "low tide"
    assert tokenizer.decode(tokenizer("low tide")["input_ids"][1:-1]) == "low tide"


def test_roberta_keeps_fairseqs_architecture(save, tmp_path):
    convert(save("roberta", True), tmp_path / "a", arch="roberta")
    convert(save("bert", True), tmp_path / "b", arch="roberta")
    a, b = (get_cfg_section(read_checkpoint(tmp_path / each / "model.pt"), "model") for each in "ab")
    assert a["_name"] == "roberta" and "layer_norm_eps" not in a
    assert (b["_name"], b["projection"], b["layer_norm_eps"]) == ("linformer_roberta", "none", 1e-12)


def test_defaults_and_provenance(save, tmp_path, capsys):
    """k = n / 4 and a local window of 16 by default; what is new and untrained is reported."""
    main(["convert", str(save("bert", False)), str(tmp_path / "a"), "--max-positions", "48"])
    path, _, head, _ = capsys.readouterr().out.splitlines()
    assert path == f"{tmp_path / 'a' / 'model.pt'}: n = 48, k = 12, local window = 16" and "new and untrained" in head
    imported = read_checkpoint(tmp_path / "a" / "model.pt")["provenance"]["imported"]
    assert imported["lm_head"] == "new, untrained" and imported["model_type"] == "bert"
    assert len(imported["sha256"]) == 64
    new, _ = convert(save("distilbert", True), tmp_path / "b", arch="roberta", max_positions=64)
    assert new["provenance"]["imported"]["lm_head"] == "imported" and load(tmp_path / "b").max_positions() == 64


def edit(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture
def bert(save, tmp_path):
    """A copy of BERT's folder, to spoil."""
    return shutil.copytree(save("bert", True), tmp_path / "encoder")


def check_rejected(folder, message):
    with pytest.raises(SystemExit) as end:
        main(["convert", str(folder), f"{folder}-out"])
    assert re.search(message, end.value.code) and str(folder) in end.value.code
    assert len(end.value.code.splitlines()) == 1
    assert not Path(f"{folder}-out").exists()


@pytest.mark.parametrize(
    "values, message",
    [
        (
            dict(position_embedding_type="relative_key"),
            "position_embedding_type of .* must be absolute, got 'relative_key'",
        ),
        (dict(model_type="mpnet"), "model_type of .* must be one of bert, .*, got 'mpnet': its positions are relative"),
        (dict(model_type="electra", embedding_size=8), "embedding_size of .* must be 16, got 8"),
        (dict(model_type="ernie", use_task_id=True), "use_task_id of .* must be False, got True"),
        (dict(model_type="electra", embedding_size=16, hidden_act="relu"), "hidden_act of .* must be gelu, got 'relu'"),
        (dict(hidden_act="silu"), "hidden_act"),
        (dict(is_decoder=True), "is_decoder"),
        (dict(layer_norm_eps=1.0), "layer_norm_eps of .* must be at least 1e-15 and below 1"),
        (dict(num_hidden_layers=3), "is missing"),
        (dict(intermediate_size=24), "has another shape"),
    ],
)
def test_unusable_configuration_is_rejected(values, message, bert):
    edit(bert / "config.json", **values)
    check_rejected(bert, message)


def test_unusable_files_are_rejected(bert):
    content = json.loads((bert / "tokenizer.json").read_text())
    content["model"]["vocab"]["more"] = len(WORDS)
    (bert / "tokenizer.json").write_text(json.dumps(content))
    check_rejected(bert, "at most one token per embedding")
    (bert / "model.safetensors").rename(bert / "x")
    index = {"metadata": {}, "weight_map": {"bert.pooler.weight": "shard.safetensors"}}
    (bert / "model.safetensors.index.json").write_text(json.dumps(index))
    check_rejected(bert, "has no shard.safetensors")
    (bert / "model.safetensors").write_bytes(b"\x08")
    check_rejected(bert, "transformers cannot load")
    (bert / "config.json").write_text("[[")
    check_rejected(bert, "config.json' is not a valid JSON")


@pytest.mark.parametrize("dense", [{}, {"cls.predictions.transform.dense.weight": torch.ones(8, 16)}])
def test_incomplete_head_is_replaced(dense, bert, tmp_path):
    """By a new one, as a missing head; also if a weight has another shape."""
    weights = load_file(bert / "model.safetensors")
    del weights["cls.predictions.transform.dense.weight"]
    save_file(weights | dense, bert / "model.safetensors", {"format": "pt"})
    new, _ = convert(bert, tmp_path / "out")
    assert new["provenance"]["imported"]["lm_head"] == "new, untrained"
    assert (new["model"]["encoder.lm_head.dense.bias"] == 0).all()


def test_shards_are_hashed(bert, tmp_path):
    model, checksums = transformers.AutoModelForMaskedLM.from_pretrained(bert), set()
    (bert / "model.safetensors").unlink()
    for _ in range(2):
        torch.nn.init.normal_(model.bert.embeddings.word_embeddings.weight)
        model.save_pretrained(bert, max_shard_size="2kB")
        assert len(list(bert.glob("*.safetensors"))) > 1
        checksums.add(read_model(identify(bert))[0]["provenance"]["imported"]["sha256"])
    assert len(checksums) == 2


def test_unusable_tokenizer_is_rejected(save, tmp_path):
    folder = shutil.copytree(save("roberta", True), tmp_path / "encoder")
    edit(folder / "tokenizer.json", post_processor=None)
    edit(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    check_rejected(folder, "must add <s> before and </s> after")


def test_spare_embeddings_are_left_out(bert, tmp_path, capsys):
    """Rows after those of the tokens, such as the 35 of multilingual MiniLM."""
    model = transformers.AutoModelForMaskedLM.from_pretrained(bert).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(bert)(TEXTS[0], return_tensors="pt")
    expected = model(**tokens).logits
    model.resize_token_embeddings(len(WORDS) + 35)
    model.save_pretrained(bert)
    main(["convert", str(bert), str(tmp_path / "out"), "--arch", "roberta"])
    assert f"{bert}: 35 embeddings have no token and are left out" in capsys.readouterr().err
    order, _ = read_vocabulary(str(bert), len(WORDS) + 35)
    found = load(tmp_path / "out")(encode(tmp_path / "out", TEXTS[:1]))[0]
    assert len(order) == len(WORDS) == found.size(-1)
    torch.testing.assert_close(found, expected[..., order], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_added_tokens_have_one_id_each(family, save, tmp_path):
    """Special and ordinary tokens, with embeddings of their own, for WordPiece, BPE and unigram models."""
    folder = shutil.copytree(save(family, True), tmp_path / "encoder")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[E1]", "[/E1]"]})
    tokenizer.add_tokens(["covid", transformers.AddedToken("tide2", single_word=True)])
    tokenizer.save_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    out = tmp_path / "out"
    convert(folder, out, projected_dim=32, local_window=0)
    export_checkpoint(out / "model.pt", tmp_path / "hf")
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    order, _ = read_vocabulary(str(folder), len(tokenizer))
    for text in ("[E1]new[/E1] low covid newcovid", "tide2 tide2s", "[E1] tide [/E1]"):
        expected = tokenizer(text, return_tensors="pt")["input_ids"]
        tokens = exported(text, return_tensors="pt")["input_ids"]
        assert torch.equal(order[tokens], expected), text
        assert torch.equal(encode(out, [text]), tokens), text
        with torch.no_grad():
            torch.testing.assert_close(load(out)(tokens)[0], model(expected).logits[..., order], rtol=1e-4, atol=1e-4)
    assert exported("[E1]")["input_ids"] == [0, exported.get_vocab()["[E1]"], 2]
    # The same again after a round trip of the exported folder.
    convert(tmp_path / "hf", tmp_path / "back")
    assert torch.equal(encode(tmp_path / "back", ["[E1] tide2 newcovid"]), encode(out, ["[E1] tide2 newcovid"]))
