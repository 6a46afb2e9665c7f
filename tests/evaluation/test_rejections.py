"""Arguments and data that ``evaluate`` rejects."""

import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_linformer.models.dictionaries import check_dictionary


def change(path, edit):
    checkpoint = torch.load(path, weights_only=True)
    edit(checkpoint["model"])
    torch.save(checkpoint, path)


@pytest.mark.parametrize("names", ["a 1\nb 1\n", "1 1\n2 1\n"])
def test_numbers_are_not_taken_for_indices_of_classes(names, evaluate, finetuned, tmp_path):
    (tmp_path / "labels.txt").write_text(names)
    (tmp_path / "rows.tsv").write_text("sentence\tlabel\ncat\t0\ndog\t1\n")
    shown = ", ".join(name.split()[0] for name in names.splitlines())
    message = evaluate(finetuned, tmp_path / "rows.tsv", "--device", "cpu", "--labels", tmp_path / "labels.txt")
    assert f"rows.tsv:2: unknown label '0'; the model's classes are {shown}" in message


def test_data_with_another_dictionary_or_labels_is_rejected(evaluate, finetuned, pieces, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(pieces, other)
    lines = (other / "input0/dict.txt").read_text().splitlines()
    (other / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("other/input0/dict.txt .*: entry 4", evaluate(finetuned, other, "--device", "cpu"))
    shutil.copy(pieces / "dict.txt", other / "input0")
    labels = Dictionary()
    for name in ("dog", "bird"):
        labels.add_symbol(name)
    labels.save(str(other / "label/dict.txt"))
    assert re.search("bird.*animal: cat, dog", evaluate(finetuned, other, "--device", "cpu"))


def test_damaged_weights_are_reported(evaluate, finetuned, table, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(finetuned.parent, folder)
    change(
        folder / finetuned.name, lambda state: state["encoder.sentence_encoder.layers.0.fc1.bias"].fill_(float("nan"))
    )
    message = evaluate(folder / finetuned.name, table, "--device", "cpu", "--predictions", tmp_path / "p.tsv")
    assert "rows.tsv:2" in message and "[nan, nan]" in message
    assert not (tmp_path / "p.tsv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--truncation", "head"), ("--gpt2-bpe", "x"), ("--sentencepiece-model", "x")])
def test_tokenizer_options_are_rejected_for_prepared_data(options, evaluate, finetuned, pieces):
    message = evaluate(finetuned, pieces, *options)
    assert options[0] in message and str(pieces) in message


def test_two_names_of_one_output_file_are_rejected(evaluate, finetuned, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--json" in evaluate(finetuned, table, "--predictions", "./out.jsonl", "--json", "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_dictionary_may_contain_the_mask(tmp_path):
    for name, symbols in (("without", "a b"), ("with", "a b <mask>")):
        (tmp_path / name).write_text("".join(f"{symbol} 1\n" for symbol in symbols.split()))
        check_dictionary(tmp_path / name, 7, "model.pt")  # with fairseq's four symbols and the mask
        with pytest.raises(ValueError, match="8 entries.* 7"):
            check_dictionary(tmp_path / name, 8, "model.pt")
