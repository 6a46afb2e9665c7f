"""Weights and dictionaries that ``evaluate`` rejects; tests/bad_input has what a user types."""

import shutil

import pytest
import torch

from fairseq_linformer.models.dictionaries import check_dictionary


def test_damaged_weights_are_reported(evaluate, finetuned, table, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(finetuned.parent, folder)
    checkpoint = torch.load(folder / finetuned.name, weights_only=True)
    checkpoint["model"]["encoder.sentence_encoder.layers.0.fc1.bias"].fill_(float("nan"))
    torch.save(checkpoint, folder / finetuned.name)
    message = evaluate(folder / finetuned.name, table, "--predictions", tmp_path / "p.tsv")
    assert "rows.tsv:2" in message and "[nan, nan]" in message
    assert not (tmp_path / "p.tsv").exists()


def test_dictionary_may_contain_the_mask(tmp_path):
    for name, symbols in (("without", "a b"), ("with", "a b <mask>")):
        (tmp_path / name).write_text("".join(f"{symbol} 1\n" for symbol in symbols.split()))
        check_dictionary(tmp_path / name, 7, "model.pt")  # with fairseq's four symbols and the mask
        with pytest.raises(ValueError, match="8 entries.* 7"):
            check_dictionary(tmp_path / name, 8, "model.pt")
