"""One sentence per invalid input; nothing is overwritten or partially written."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from fairseq_linformer.checkpoints import huggingface
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.huggingface import from_huggingface, to_huggingface
from fairseq_linformer.checkpoints.onnx_export import to_onnx
from fairseq_linformer.data.tokenizer_files import GPT2_FILES, choose_tokenizer
from fairseq_linformer.evaluation.classifier import TransformersClassifier
from fairseq_linformer.huggingface import LinformerForMaskedLM

from .. import fairseq_commands
from .test_parity import small


def rejected(call, named, folder: Path):
    """Assert that ``call`` raises one sentence that matches ``named``, and does not change ``folder``."""
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(ValueError, match=named) as error:
        call()
    assert "\n" not in str(error.value)
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before


@pytest.fixture
def source(masked_lm, tmp_path):
    """A copy of a checkpoint with its files, to damage."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("checkpoint_last.pt", "dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(masked_lm / name, folder)
    return folder


@pytest.fixture
def exported(masked_lm_folder, tmp_path):
    """A copy of an exported folder, to damage."""
    return Path(shutil.copytree(masked_lm_folder, tmp_path / "exported"))


class Code:
    def __reduce__(self):
        return (print, ("code was run",))


def spoiled(spoil, source):
    checkpoint = fairseq_commands.load(source)
    new = spoil(checkpoint)
    torch.save(checkpoint if new is None else new, source / "checkpoint_last.pt")


@pytest.mark.parametrize(
    "spoil, named",
    [
        (lambda c: {**c, "extra": Code()}, r"code \((builtins\.)?print\)"),
        (lambda c: [1, 2], "'model'"),
        (lambda c: {"model": c["model"]}, "cfg"),
        (lambda c: c["cfg"]["model"].update(_name="roberta_base"), "'roberta_base'"),
        (lambda c: c["cfg"].update(model=Namespace(arch="bart_large")), "'bart_large'"),
        (lambda c: c["cfg"]["model"].update(quant_noise_pq=0.1), "quant_noise_pq .* got 0.1"),
        (lambda c: c["cfg"]["model"].update(quant_noise_scalar=0.5), "quant_noise_scalar .* got 0.5"),
        (lambda c: c["cfg"]["model"].update(projected_dim=4), "cfg.*linformer.*must have"),
        (lambda c: c["cfg"]["model"].update(encoder_layers=3), "cfg.*layers.2.* is missing"),
        (lambda c: c["model"].update({"decoder.x": torch.ones(1)}), "decoder.x"),
        (lambda c: c["model"].pop("encoder.sentence_encoder.embed_tokens.weight") * 0, "sentence_encoder.embed_tokens"),
        (
            lambda c: c["model"].update({"encoder.lm_head.weight": c["model"]["encoder.lm_head.weight"] + 1}),
            "encoder.lm_head.weight.*untie_weights_roberta",
        ),
        (
            lambda c: c["model"].update(
                {f"classification_heads.x.{k}": torch.ones(2, 16) for k in ("dense.weight", "out_proj.weight_orig")}
            ),
            "head 'x'.*spectral_norm_classification_head",
        ),
    ],
)
def test_checkpoints(spoil, named, source, tmp_path, capsys):
    def change(checkpoint):
        new = spoil(checkpoint)
        return None if isinstance(new, torch.Tensor) else new

    spoiled(change, source)
    rejected(lambda: to_huggingface(source / "checkpoint_last.pt", tmp_path / "out"), named, tmp_path)
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("kept", [0, 10, 5000, -1])
def test_truncated(kept, source, tmp_path):
    path = source / "checkpoint_last.pt"
    path.write_bytes(path.read_bytes()[:kept])
    rejected(lambda: to_huggingface(path, tmp_path / "out"), "checkpoint_last.pt.*truncated", tmp_path)


def test_no_file(tmp_path):
    rejected(lambda: to_huggingface(tmp_path / "x.pt", tmp_path / "out"), "x.pt is not a file", tmp_path)
    rejected(lambda: read_checkpoint(tmp_path), "is not a file", tmp_path)


@pytest.mark.slow
def test_tokenizer_files(source, tmp_path):
    path, out = source / "checkpoint_last.pt", tmp_path / "out"
    words = tmp_path / "words.txt"
    words.write_text("a 1\nb 1\n")
    broken = tmp_path / "broken.model"
    broken.write_bytes(b"nothing")
    bpe = tmp_path / "bpe"
    bpe.mkdir()
    for name in GPT2_FILES:
        shutil.copyfile(words, bpe / name)
    for options, named in (
        (dict(dictionary=tmp_path / "no.txt"), "no.txt does not exist"),
        (dict(dictionary=words), "words.txt must be the tokenizer's dictionary"),
        (dict(tokenizer_files=choose_tokenizer(sentencepiece=tmp_path / "no.model")), "no.model does not exist"),
        (dict(tokenizer_files=choose_tokenizer(sentencepiece=broken)), "broken.model"),
        (dict(tokenizer_files=choose_tokenizer(gpt2=tmp_path)), "encoder.json does not exist"),
        (dict(tokenizer_files=choose_tokenizer(gpt2=bpe)), "encoder.json is not JSON"),
        (dict(tokenizer_files=choose_tokenizer(tokenizer_json=words)), "words.txt is not a tokenizer.json"),
        (dict(tokenizer=False, dictionary=words), "--dictionary"),
        (dict(tokenizer=False, tokenizer_files=choose_tokenizer(tokenizer_json=words)), "--tokenizer-json"),
        (dict(labels=words), "labels .*words.txt"),
        (dict(head="topic"), "head 'topic'"),
    ):
        rejected(lambda: to_huggingface(path, out, **options), named, tmp_path)
    (source / "sentencepiece.bpe.model").unlink()
    rejected(lambda: to_huggingface(path, out), "sentencepiece.bpe.model.*--no-tokenizer", tmp_path)
    (source / "dict.txt").unlink()
    rejected(lambda: to_huggingface(path, out), "dict.txt.*--dictionary", tmp_path)
    to_huggingface(path, out, tokenizer=False)
    assert not (out / "dict.txt").exists() and (out / "model.safetensors").exists()


def test_too_few_labels(classifier, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("cat 1\n")
    call = lambda: to_huggingface(classifier / "checkpoint_last.pt", tmp_path / "out", labels=labels)
    rejected(call, "labels.txt.* 2 .* got 1", tmp_path)
    labels.unlink()
    rejected(call, "labels.txt does not exist", tmp_path)


@pytest.mark.parametrize("kind", ["folder", "file", "empty"])
def test_existing_output(kind, source, exported, tmp_path):
    out = tmp_path / "out"
    calls = (lambda: to_huggingface(source / "checkpoint_last.pt", out), lambda: from_huggingface(exported, out))
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
    if kind == "folder":
        (out / "mine.txt").write_text("mine")
    for call in calls:
        if kind == "empty":
            call()
            assert any(out.iterdir())
            shutil.rmtree(out)
            out.mkdir()
        else:
            rejected(call, "/out ", tmp_path)


def test_failure_leaves_no_partial_output(source, exported, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise ValueError("in between")

    with monkeypatch.context() as patch:
        patch.setattr(huggingface, "build_model_card", fail)  # after weights, code and tokenizer
        rejected(lambda: to_huggingface(source / "checkpoint_last.pt", tmp_path / "out"), "in between", tmp_path)
    monkeypatch.setattr(torch, "save", fail)
    rejected(lambda: from_huggingface(exported, tmp_path / "out"), "in between", tmp_path)


def edit_config(folder: Path, **changes) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def edit_weights(folder: Path, edit) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    "spoil, named",
    [
        (lambda f: (f / "config.json").unlink(), "config.json"),
        (lambda f: (f / "config.json").write_text('{"model_type": '), "config.json.*JSON"),
        (lambda f: edit_config(f, model_type="roberta"), "model_type .* got 'roberta'"),
        (lambda f: edit_config(f, fairseq=None), "no 'fairseq'"),
        (lambda f: edit_config(f, sharing="rowwise"), "sharing must .*'rowwise'"),
        (lambda f: edit_config(f, embed_dim="16"), "embed_dim must be an integer, got '16'"),
        (lambda f: edit_config(f, dropout=[0]), "dropout must be a number, got \\[0\\]"),
        (lambda f: edit_config(f, embed_dim=1 << 24), "exported.*embed_tokens.weight"),
        (lambda f: edit_config(f, padding_idx=0), "padding_idx of .*exported must be 1, .* got 0"),
        (lambda f: edit_config(f, layers=1 << 30), "layers must .*1,024.* got 1073741824"),
        (lambda f: edit_config(f, layers=3), "exported.*linformer.encoder.layers.2.* is missing"),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "as a pickle"),
        (
            lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
            "model.safetensors.*truncated",
        ),
        (lambda f: edit_weights(f, lambda w: w.pop("lm_head.bias")), "lm_head.bias is missing"),
        (
            lambda f: edit_weights(f, lambda w: w.pop("linformer.encoder.embed_tokens.weight")),
            "embed_tokens.weight is missing",
        ),
        (lambda f: edit_weights(f, lambda w: w.update(pooler=torch.ones(1))), "pooler"),
        (lambda f: edit_weights(f, lambda w: w.update({"linformer.encoder.x": torch.ones(1)})), "encoder.x"),
        (lambda f: (f / "dict.txt").write_text("a 1\n"), "dict.txt.* 28 .* got 6"),
    ],
)
def test_folders(spoil, named, exported, tmp_path):
    spoil(exported)
    rejected(lambda: from_huggingface(exported, tmp_path / "out"), named, tmp_path)


def test_dictionary_of_from_huggingface(exported, tmp_path):
    (exported / "dict.txt").unlink()
    rejected(
        lambda: from_huggingface(exported, tmp_path / "out", dictionary=tmp_path / "no.txt"),
        "no.txt, .*does not exist",
        tmp_path,
    )
    from_huggingface(exported, tmp_path / "out")
    assert not (tmp_path / "out" / "dict.txt").exists()


@pytest.fixture
def headless(masked_lm_folder, tmp_path):
    """A folder of an encoder without a head, with its tokenizer."""
    AutoModel.from_pretrained(masked_lm_folder).save_pretrained(tmp_path / "headless")
    AutoTokenizer.from_pretrained(masked_lm_folder).save_pretrained(tmp_path / "headless")
    return tmp_path / "headless"


def test_encoder_without_a_head_is_neither_converted_nor_evaluated(headless, tmp_path):
    for convert in (from_huggingface, to_onnx):
        rejected(lambda: convert(headless, tmp_path / "out"), "headless has an encoder without a head", tmp_path)
    call = lambda: TransformersClassifier(str(headless))
    rejected(call, "headless must have a trained classification head, but it has no classifier.dense.bias", tmp_path)


def test_encoder_without_a_head_gets_a_new_one(headless, masked_lm_folder):
    model, report = AutoModelForSequenceClassification.from_pretrained(headless, output_loading_info=True)
    assert {key.split(".")[0] for key in report["missing_keys"]} == {"lm_head", "classifier"}
    expected = AutoModel.from_pretrained(masked_lm_folder).state_dict()
    actual = model.base_model.state_dict()
    assert actual.keys() == expected.keys() and all(actual[key].equal(expected[key]) for key in expected)
    assert 0.01 < model.classifier.dense.weight.std() < 0.03 and (model.classifier.dense.bias == 0).all()


def test_code_in_the_folder_is_not_run(exported, tmp_path):
    for name in ("configuration_linformer.py", "modeling_linformer.py", "tokenization_linformer.py"):
        (exported / name).write_text("raise SystemExit('code was run')")
    from_huggingface(exported, tmp_path / "out")
    assert LinformerForMaskedLM.from_pretrained(exported)


def test_rejects_other_attentions(exported):
    with pytest.raises(ValueError, match="attn_implementation must be 'sdpa', got 'eager'"):
        LinformerForMaskedLM.from_pretrained(exported, attn_implementation="eager")
    model = LinformerForMaskedLM(small())
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="attn_implementation must be 'sdpa', got 'eager'"):
        model.set_attn_implementation("eager")
    assert model.config._attn_implementation == "sdpa"


def test_rejects_padding_before_the_sentence():
    """The classifier reads the first position, and E and F depend on positions."""
    model = LinformerForMaskedLM(small())
    with pytest.raises(ValueError, match="padded after"):
        model(torch.tensor([[1, 1, 5, 6]]))
    with pytest.raises(ValueError, match="padded after"):
        model(torch.tensor([[5, 5, 5, 6]]), attention_mask=torch.tensor([[0, 1, 1, 1]]))
    model(torch.tensor([[1, 1], [5, 1]]))  # a sentence of only padding is allowed
