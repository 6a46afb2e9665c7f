"""Arguments and data that ``evaluate`` rejects."""

import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_linformer.evaluation.classifier import check_dictionary


def change(path, edit):
    checkpoint = torch.load(path, weights_only=True)
    edit(checkpoint["model"])
    torch.save(checkpoint, path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["{ckpt}", "{tmp}/lost.tsv"], "lost.tsv.*sst-2"),
        (["{tmp}/lost.pt", "{table}"], "lost.pt is not a file"),
        (["{mlm}", "{table}"], "no classification head"),
        (["{ckpt}", "{table}", "--head", "topic"], "--head 'topic'.*animal"),
        (["{ckpt}", "{table}", "--dictionary", "{tmp}/dict.txt"], "dict.txt.*does not exist"),
        (["{ckpt}", "{table}", "--dictionary", "{short}"], "short.txt .* 28 entries.* 7"),
        (["{ckpt}", "{table}", "--labels", "{short}"], None),
        (["{ckpt}", "{table}", "--gpt2-bpe", "{tmp}"], "encoder.json"),
        (["{ckpt}", "{table}", "--predictions", "{table}"], "rows.tsv already exists"),
        (["{ckpt}", "{table}", "--predictions", "p.csv"], "--predictions.*\\.tsv or \\.jsonl.*p.csv"),
        (["{ckpt}", "{table}", "--batch-size", "0"], "--batch-size.* 1.* 0"),
        (["{ckpt}", "{table}", "--split", "test"], "--split.*rows.tsv"),
        (["{ckpt}", "{table}", "--seed", "3"], "--seed.*--perplexity"),
        (["{ckpt}", "{table}", "--device", "tpu9"], "--device tpu9"),
        (["{ckpt}", "{table}", "--max-positions", "8"], "--max-positions.*transformers"),
        (["{ckpt}", "{unknown}"], "unknown.tsv:3.*bird.*animal: cat, dog"),
        (["{ckpt}", "{data}", "--split", "test"], "input0/test.idx.*train, valid"),
        (["{ckpt}"], "TASK-OR-FILE.*--perplexity"),
        (["{ckpt}", "sts-b"], "sts-b.*scores.*classes"),
        (["{ckpt}", "mnli"], "mnli.*entailment, neutral, contradiction.*animal: cat, dog"),
        (["{mlm}", "--perplexity", "{tmp}"], "dict.txt.*does not exist"),
        (["{mlm}", "--perplexity", "{data}", "--tokens-per-sample", "17"], "positions.* 2 .*16, got 17"),
        (["{mlm}", "--perplexity", "{data}", "--tokens-per-sample", "1"], "positions.* 2 .*got 1"),
        (["{mlm}", "--perplexity", ""], ": dict.txt.*does not exist"),
        (["{mlm}", "--perplexity", "{data}", "--max-tokens", "0"], "--max-tokens.* 1.* 0"),
        (["{mlm}", "--perplexity", "{data}", "--seed", "-1"], "--seed.* 0 .*-1"),
        (["{mlm}", "--perplexity", "{swapped}"], "swapped/dict.txt.*entry 4"),
        (["{ckpt}", "{table}", "--json", "s.jsonl", "--predictions", "s.jsonl"], "--json.*s.jsonl"),
        (["{ckpt}", "{table}", "--json", "-"], "--json.* -"),
        (["{ckpt}", "{table}", "--device", "meta"], "--device meta"),
        (
            ["{ckpt}", "{table}", "--text-column", "sentence", "--text-column", "sentence"],
            "--text-column.*sentence, sentence",
        ),
        (["{ckpt}", "qqp", "--source", "{tmp}"], "qqp.*not_duplicate, duplicate.*animal: cat, dog"),
        (["{mlm}", "--perplexity", "{data}", "--mask-prob", "1"], "--mask-prob.* 0 .* 1, got 1.0"),
        (["{mlm}", "--perplexity", "{data}", "--split", "test"], "test.idx"),
        (["{mlm}", "--perplexity", "{data}", "--head", "animal"], "--head.*--perplexity"),
        (["{hf}", "{table}", "--gpt2-bpe", "x"], "--gpt2-bpe.*fairseq"),
        (["{hf}", "{data}"], "fairseq.*transformers"),
        (["{tmp}", "{table}"], "cannot load"),
    ],
)
def test_rejected_arguments(
    arguments, message, evaluate, finetuned, masked_lm, classifier_folder, pieces, table, tmp_path
):
    (tmp_path / "short.txt").write_text("a 1\nb 1\n")
    (tmp_path / "unknown.tsv").write_text("sentence\tlabel\na cat\tdog\na bird\tbird\n")
    paths = dict(
        ckpt=finetuned,
        mlm=masked_lm / "checkpoint_last.pt",
        hf=classifier_folder,
        data=pieces,
        table=table,
        tmp=tmp_path,
        short=tmp_path / "short.txt",
        swapped=tmp_path / "swapped",
        unknown=tmp_path / "unknown.tsv",
    )
    shutil.copytree(pieces, tmp_path / "swapped")
    lines = (pieces / "dict.txt").read_text().splitlines()
    (tmp_path / "swapped/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    before = sorted(tmp_path.iterdir())
    end = evaluate(*(word.format(**paths) for word in arguments))
    if message is None:
        assert "accuracy" in end  # classes 0 and 1 are then named a and b
        return
    assert end.startswith("fairseq-linformer: ") and "\n" not in end
    assert re.search(message, end), end
    assert sorted(tmp_path.iterdir()) == before


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
