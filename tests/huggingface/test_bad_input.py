"""One sentence per invalid input; nothing is overwritten or partially written."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.checkpoints.export_onnx import export_onnx
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.cli import main
from fairseq_linformer.huggingface import LinformerForMaskedLM

from .. import fairseq_commands


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


@pytest.mark.parametrize(
    "spoil, named",
    [
        (lambda c: c["cfg"].update(model=Namespace(arch="bart_large")), "'bart_large'"),
        (lambda c: c["cfg"]["model"].update(projected_dim=4), "do not match: linformer.*must have"),
        (lambda c: c["model"].update({"decoder.x": torch.ones(1)}), "decoder.x"),
        (lambda c: c["model"].pop("encoder.sentence_encoder.embed_tokens.weight"), "sentence_encoder.embed_tokens"),
    ],
)
def test_checkpoints(spoil, named, source, tmp_path):
    checkpoint = fairseq_commands.load(source)
    spoil(checkpoint)
    torch.save(checkpoint, source / "checkpoint_last.pt")
    rejected(lambda: export_checkpoint(source / "checkpoint_last.pt", tmp_path / "out"), named, tmp_path)


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
        (lambda f: edit_config(f, fairseq=None), "'fairseq' in .* has no configuration"),
        (lambda f: edit_config(f, embed_dim="16"), "embed_dim must be an integer, got '16'"),
        (lambda f: edit_config(f, embed_dim=1 << 24), "exported.*embed_positions.weight must have shape"),
        (lambda f: edit_config(f, padding_idx=0), "padding_idx of .*exported must be 1, .* got 0"),
        (lambda f: edit_config(f, layers=1 << 30), "layers must .*1,024.* got 1073741824"),
        (lambda f: edit_weights(f, lambda w: w.pop("lm_head.bias")), "lm_head.bias must .* got none"),
        (lambda f: edit_weights(f, lambda w: w.update(pooler=torch.ones(1))), "pooler must have shape none"),
    ],
)
def test_folders(spoil, named, exported, tmp_path):
    spoil(exported)
    rejected(lambda: convert(exported, tmp_path / "out"), named, tmp_path)


def test_encoder_without_a_head(masked_lm_folder, tmp_path, capsys):
    """fairseq gives it a new one, which is not exported again."""
    for saved in (AutoModel, AutoTokenizer):
        saved.from_pretrained(masked_lm_folder).save_pretrained(tmp_path / "headless")
    checkpoint, _ = convert(tmp_path / "headless", tmp_path / "back", dictionary=masked_lm_folder / "dict.txt")
    state = checkpoint["model"]
    assert checkpoint["provenance"]["imported"] == {"lm_head": "new, untrained"}
    assert 0.01 < state["encoder.lm_head.dense.weight"].std() < 0.03
    assert state["encoder.lm_head.weight"] is state["encoder.sentence_encoder.embed_tokens.weight"]
    export_checkpoint(tmp_path / "back" / "model.pt", tmp_path / "again")
    weights = load_file(tmp_path / "again" / "model.safetensors")
    assert all(key.startswith("linformer.") for key in weights)
    model = AutoModel.from_pretrained(tmp_path / "again")
    before = AutoModel.from_pretrained(masked_lm_folder).state_dict()
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())
    card = (tmp_path / "again" / "README.md").read_text()
    assert 'AutoModel.from_pretrained("FOLDER"' in card and "feature-extraction" in card
    # A head that Trainer has trained since is a result again.
    LinformerForMaskedLM.from_pretrained(tmp_path / "again").save_pretrained(tmp_path / "trained")
    main(["convert", str(tmp_path / "trained"), str(tmp_path / "third")])
    assert "untrained" not in capsys.readouterr().out
    assert read_checkpoint(tmp_path / "third" / "model.pt")["provenance"]["imported"] == {"lm_head": "imported"}


def test_heads_that_fairseq_lacks(masked_lm_folder, tmp_path):
    model = AutoModelForTokenClassification.from_pretrained(masked_lm_folder, num_labels=3)
    model.save_pretrained(tmp_path / "tags")
    for command in (convert, export_onnx):
        rejected(lambda: command(tmp_path / "tags", tmp_path / "out"), "tags has a head that fairseq lacks", tmp_path)
    model.base_model.save_pretrained(tmp_path / "encoder")
    assert convert(tmp_path / "encoder", tmp_path / "out")


def test_code_in_the_folder_is_not_run(exported, tmp_path):
    for name in ("configuration_linformer.py", "modeling_linformer.py", "tokenization_linformer.py"):
        (exported / name).write_text("raise SystemExit('code was run')")
    convert(exported, tmp_path / "out")
    assert LinformerForMaskedLM.from_pretrained(exported)


def test_other_attentions(exported):
    """``eager``, which ``transformers`` requires for ``config.output_attentions``, is the same computation."""
    tokens = torch.tensor([[0, 5, 6, 2]])
    model = LinformerForMaskedLM.from_pretrained(exported)
    eager = LinformerForMaskedLM.from_pretrained(exported, attn_implementation="eager", output_attentions=True)
    assert eager(tokens).logits.equal(model(tokens).logits) and len(eager(tokens).attentions) == 2
    with pytest.raises(ValueError, match="does not support Flash Attention 2"):
        LinformerForMaskedLM.from_pretrained(exported, attn_implementation="flash_attention_2")
