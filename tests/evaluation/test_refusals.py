"""What ``evaluate`` refuses."""

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


@pytest.mark.parametrize("arguments, said", [
    (["{ckpt}", "{tmp}/lost.tsv"], "lost.tsv.*sst-2"),
    (["{tmp}/lost.pt", "{table}"], "lost.pt is not a file"),
    (["{mlm}", "{table}"], "no classification head"),
    (["{ckpt}", "{table}", "--head", "topic"], "--head is topic.*animal"),
    (["{ckpt}", "{table}", "--dictionary", "{tmp}/dict.txt"], "no .*dict.txt"),
    (["{ckpt}", "{table}", "--dictionary", "{short}"], "short.txt has 7 entries"),
    (["{ckpt}", "{table}", "--labels", "{short}"], None),
    (["{ckpt}", "{table}", "--gpt2", "{tmp}"], "encoder.json.*--gpt2"),
    (["{ckpt}", "{table}", "--predictions", "{table}"], "rows.tsv exists"),
    (["{ckpt}", "{table}", "--predictions", "p.csv"], "--predictions is p.csv.*\\.tsv or \\.jsonl"),
    (["{ckpt}", "{table}", "--batch-size", "0"], "--batch-size is 0.* 1"),
    (["{ckpt}", "{table}", "--split", "test"], "--split.*rows.tsv"),
    (["{ckpt}", "{table}", "--seed", "3"], "--seed.*for --perplexity"),
    (["{ckpt}", "{table}", "--device", "tpu9"], "--device is tpu9"),
    (["{ckpt}", "{table}", "--max-positions", "8"], "--max-positions is 8"),
    (["{ckpt}", "{table}", "--cut", "tail"], "cut is 'tail'.*head, head\\+tail"),
    (["{ckpt}", "{unknown}"], "unknown.tsv:3.*bird.*animal: cat, dog"),
    (["{ckpt}", "{data}", "--split", "test"], "input0/test.idx.*train, valid"),
    (["{ckpt}"], "TASK-OR-FILE.*--perplexity"),
    (["{ckpt}", "sts-b"], "sts-b.*scores.*classes"),
    (["{ckpt}", "mnli"], "mnli.*entailment, neutral, contradiction.*animal: cat, dog"),
    (["{mlm}", "--perplexity", "{tmp}"], "no .*dict.txt"),
    (["{mlm}", "--perplexity", "{data}", "--positions", "17"], "--positions is 17.*2.*16"),
    (["{mlm}", "--perplexity", "{data}", "--positions", "1"], "--positions is 1;.*2"),
    (["{mlm}", "--perplexity", ""], "no dict.txt"),
    (["{mlm}", "--perplexity", "{data}", "--max-tokens", "0"], "--max-tokens is 0.*1"),
    (["{mlm}", "--perplexity", "{data}", "--seed", "-1"], "--seed is -1.*0"),
    (["{mlm}", "--perplexity", "{swapped}"], "swapped/dict.txt.*entry 4"),
    (["{ckpt}", "{table}", "--json", "s.jsonl", "--predictions", "s.jsonl"], "--json is s.jsonl"),
    (["{ckpt}", "{table}", "--json", "-"], "--json is -"),
    (["{ckpt}", "{table}", "--device", "meta"], "--device is meta"),
    (["{ckpt}", "{table}", "--text", "sentence", "--text", "sentence"], "--text.*sentence, sentence"),
    (["{ckpt}", "qqp", "--source", "{tmp}"], "qqp.*not_duplicate, duplicate.*animal: cat, dog"),
    (["{mlm}", "--perplexity", "{data}", "--mask-prob", "1"], "--mask-prob is 1.0.*0.*1"),
    (["{mlm}", "--perplexity", "{data}", "--split", "test"], "test.idx"),
    (["{mlm}", "--perplexity", "{data}", "--head", "animal"], "--head.*not for --perplexity"),
    (["{hf}", "{table}", "--gpt2", "x"], "--gpt2.*fairseq"),
    (["{hf}", "{data}"], "fairseq.*transformers"),
    (["{tmp}", "{table}"], "cannot be loaded"),
])  # fmt: skip
def test_what_is_refused(arguments, said, evaluate, finetuned, masked_lm, classifier_folder, pieces, table, tmp_path):
    (tmp_path / "short.txt").write_text("a 1\nb 1\n")
    (tmp_path / "unknown.tsv").write_text("sentence\tlabel\na cat\tdog\na bird\tbird\n")
    places = dict(ckpt=finetuned, mlm=masked_lm / "checkpoint_last.pt", hf=classifier_folder, data=pieces, table=table, tmp=tmp_path,
                  short=tmp_path / "short.txt", swapped=tmp_path / "swapped", unknown=tmp_path / "unknown.tsv")  # fmt: skip
    shutil.copytree(pieces, tmp_path / "swapped")
    lines = (pieces / "dict.txt").read_text().splitlines()
    (tmp_path / "swapped/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    before = sorted(tmp_path.iterdir())
    end = evaluate(*(word.format(**places) for word in arguments))
    if said is None:
        assert "accuracy" in end  # numbers for names: 0 and 1 are then a and b
        return
    assert end.startswith("fairseq-linformer: ") and "\n" not in end
    assert re.search(said, end), end
    assert sorted(tmp_path.iterdir()) == before  # nothing is half-written


def test_data_of_another_dictionary_or_with_other_labels_is_refused(evaluate, finetuned, pieces, tmp_path):
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


def test_a_damaged_model_is_said(evaluate, finetuned, table, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(finetuned.parent, folder)
    change(folder / finetuned.name, lambda state: state["encoder.sentence_encoder.layers.0.fc1.bias"].fill_(float("nan")))
    said = evaluate(folder / finetuned.name, table, "--device", "cpu", "--predictions", tmp_path / "p.tsv")
    assert "rows.tsv:2" in said and "[nan, nan]" in said
    assert not (tmp_path / "p.tsv").exists()


@pytest.mark.parametrize("words", [("--cut", "head"), ("--gpt2", "x"), ("--sentencepiece", "x")])
def test_a_tokenizer_is_not_for_tokens(words, evaluate, finetuned, pieces):
    said = evaluate(finetuned, pieces, *words)
    assert words[0] in said and str(pieces) in said


def test_two_names_of_one_file_are_one_file(evaluate, finetuned, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--json is out.jsonl" in evaluate(finetuned, table, "--predictions", "./out.jsonl", "--json", "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_dictionary_may_have_the_mask_itself(tmp_path):
    for name, symbols in (("without", "a b"), ("with", "a b <mask>")):
        (tmp_path / name).write_text("".join(f"{symbol} 1\n" for symbol in symbols.split()))
        check_dictionary(tmp_path / name, 7, "model.pt")  # fairseq's own four, and the mask
        with pytest.raises(ValueError, match="has 7 entries"):
            check_dictionary(tmp_path / name, 8, "model.pt")
