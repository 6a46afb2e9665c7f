"""``fairseq-linformer evaluate`` against a loop written by hand, fairseq's own numbers and the same model in transformers."""

import io
import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main
from fairseq_linformer.evaluation.classifier import check_dictionary
from fairseq_linformer.models import LinformerRobertaModel

from .. import stock
from ..trained import TEXT, finetune

ROWS = [(text, i % 2) for i, text in enumerate([*TEXT, "cat", "the mat the mat the mat the mat the mat the mat the mat", "a dog"] * 3)]
NAMES = ["animal: cat", "dog"]


@pytest.fixture(scope="module")
def finetuned(classifier, pieces, tmp_path_factory):
    """As ``finetune`` leaves it: dictionary, tokenizer and labels beside the checkpoint."""
    folder = tmp_path_factory.mktemp("finetuned")
    for path in classifier.glob("*"):
        if path.name != "checkpoint_best.pt" and path.is_file():
            shutil.copy(path, folder)
    shutil.copytree(pieces / "label", folder / "label")
    return folder / "checkpoint_last.pt"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("".join(["sentence\tlabel\n", *(f"{text}\t{label}\n" for text, label in ROWS)]))
    return path


@pytest.fixture
def evaluate(capsys):
    def evaluate(*arguments):
        try:
            main(["evaluate", *map(str, arguments)])
        except SystemExit as end:
            return str(end.code)
        found = capsys.readouterr()
        return found.out or found.err

    return evaluate


def by_hand(finetuned, pieces):
    """(rows, classes) probabilities, each sentence alone, through fairseq's own interface."""
    hub = LinformerRobertaModel.from_pretrained(str(finetuned.parent), finetuned.name, str(pieces)).eval()
    rows = [hub.encode(text) for text, _ in ROWS]
    rows = [row if len(row) <= 16 else torch.cat([row[:15], row[-1:]]) for row in rows]
    return np.array([hub.predict("animal", row).exp()[0].tolist() for row in rows])


def read_predictions(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_is_what_a_loop_by_hand_finds(evaluate, finetuned, pieces, table, tmp_path):
    expected = by_hand(finetuned, pieces)
    said = evaluate(finetuned, table, "--predictions", tmp_path / "p.jsonl", "--json", tmp_path / "s.json", "--device", "cpu")
    rows, summary = read_predictions(tmp_path / "p.jsonl"), json.loads((tmp_path / "s.json").read_text())
    found = np.array([[row["probabilities"][name] for name in NAMES] for row in rows])
    assert len(set(found.argmax(1))) == 2  # and not one answer for all
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert [row["prediction"] for row in rows] == [NAMES[c] for c in expected.argmax(1)] and [row["row"] for row in rows] == list(range(1, len(ROWS) + 1))
    accuracy = (expected.argmax(1) == [label for _, label in ROWS]).mean()
    assert summary["scores"]["accuracy"]["value"] == accuracy and f"{100 * accuracy:.2f} %" in said
    assert summary["throughput"]["rows"] == len(ROWS)


def test_the_batch_does_not_matter(evaluate, finetuned, table, tmp_path):
    found = []
    for i, options in enumerate((["--batch-size", 1], ["--max-tokens", 40], ["--batch-size", 7], [])):
        evaluate(finetuned, table, "--predictions", tmp_path / f"{i}.jsonl", "--device", "cpu", *options)
        found.append(read_predictions(tmp_path / f"{i}.jsonl"))
    for other in found[1:]:
        assert [row["prediction"] for row in other] == [row["prediction"] for row in found[0]]
        for one, two in zip(found[0], other):
            assert one["probabilities"] == pytest.approx(two["probabilities"], abs=2e-6)


def test_it_is_what_transformers_finds(evaluate, finetuned, classifier_folder, table, tmp_path):
    for name, model in (("ours", finetuned), ("theirs", classifier_folder)):
        evaluate(model, table, "--predictions", tmp_path / f"{name}.jsonl", "--json", tmp_path / f"{name}.json", "--device", "cpu")
    ours, theirs = (read_predictions(tmp_path / f"{name}.jsonl") for name in ("ours", "theirs"))
    for one, two in zip(ours, theirs):
        assert one["prediction"] == two["prediction"] and one["probabilities"] == pytest.approx(two["probabilities"], abs=2e-6)
    ours, theirs = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ours", "theirs"))
    assert ours["scores"] == theirs["scores"] and ours["confusion"] == theirs["confusion"]


def test_a_prepared_folder_gives_fairseqs_accuracy(evaluate, finetuned, pieces, capsys, caplog, tmp_path):
    evaluate(finetuned, pieces, "--json", tmp_path / "s.json", "--device", "cpu")
    caplog.set_level("INFO")
    stock.command("validate", pieces, "--user-dir", stock.PLUGIN, "--path", finetuned, "--task", "sentence_prediction", "--criterion", "sentence_prediction",
                  "--classification-head-name", "animal", "--num-classes", 2, "--init-token", 0, "--max-positions", 16, "--batch-size", 8, "--cpu",
                  "--log-format", "json")  # fmt: skip
    accuracy = stock.last_number(caplog.text, "valid_accuracy")
    assert 100 * json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == pytest.approx(accuracy, abs=0.006)


def test_without_labels_it_only_predicts(evaluate, finetuned, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(text for text, _ in ROWS).encode())))
    main(["evaluate", str(finetuned), "-", "--predictions", "-", "--device", "cpu"])
    found = capsys.readouterr()
    lines = found.out.splitlines()
    assert lines[0] == "row\tlabel\tprediction\tp(animal: cat)\tp(dog)" and len(lines) == 1 + len(ROWS)
    assert lines[1].split("\t")[:2] == ["1", ""] and lines[1].split("\t")[2] in NAMES
    assert "no labels: nothing is scored" in found.err


def test_long_texts_are_cut_as_prepare_does(evaluate, finetuned, tmp_path):
    words = "a cat sat on the mat and a dog ran to the mat"
    (tmp_path / "long.txt").write_text(f"{words} {words} {words}\n{words} {words}\n")
    evaluate(finetuned, tmp_path / "long.txt", "--predictions", tmp_path / "p.jsonl", "--device", "cpu")
    one, two = read_predictions(tmp_path / "p.jsonl")
    assert one["probabilities"] == two["probabilities"]  # the same first 14 tokens
    evaluate(finetuned, tmp_path / "long.txt", "--predictions", tmp_path / "q.jsonl", "--device", "cpu", "--cut", "head+tail")
    assert read_predictions(tmp_path / "q.jsonl")[0]["probabilities"] != one["probabilities"]


@pytest.mark.slow
def test_scores_and_pairs(evaluate, pieces, tmp_path):
    lines = [[int(token) for token in row] for row in MMapIndexedDataset(str(pieces / "train"))]
    data = tmp_path / "data"
    for split in ("train", "valid"):
        for part in ("input0", "input1"):
            stock.write_dataset(data / part, split, lines if part == "input0" else lines[::-1], len(Dictionary.load(str(pieces / "dict.txt"))))
            shutil.copy(pieces / "dict.txt", data / part)
        (data / "label").mkdir(exist_ok=True)
        (data / "label" / f"{split}.label").write_text("".join(f"{(i % 5) / 4}\n" for i in range(len(lines))))
    folder = finetune(pieces, tmp_path / "save", "--regression-target", "--separator-token", 2, "--shorten-method", "truncate", "--best-checkpoint-metric", "loss", classes=1, data=data)
    evaluate(folder / "checkpoint_last.pt", data, "--json", tmp_path / "s.json", "--device", "cpu")
    found = json.loads((tmp_path / "s.json").read_text())
    assert set(found["scores"]) == {"pearson", "spearman"} and found["rows"] == len(lines)
    labels = data / "label/valid.label"
    whole = labels.read_text()
    for text, said in ((whole + "1\n", f"{labels} has {len(lines) + 1} rows and input0 of the same split {len(lines)}"), (whole.replace("0.5", "half", 1), f"{labels}:3 is 'half'; a score is wanted"),
                       (whole.replace("0.5", "nan", 1), f"{labels}:3 is 'nan'; a score is wanted")):  # fmt: skip
        labels.write_text(text)
        assert said in evaluate(folder / "checkpoint_last.pt", data, "--device", "cpu")
    labels.write_text(whole)
    pair = data / "input1"
    stock.write_dataset(pair, "valid", lines[:-1], len(Dictionary.load(str(pieces / "dict.txt"))))
    assert f"{pair}/valid has {len(lines) - 1} rows and input0" in evaluate(folder / "checkpoint_last.pt", data, "--device", "cpu")
    (tmp_path / "pair.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(f"{text}\t{TEXT[i - 1]}\t{i / 4}\n" for i, text in enumerate(TEXT)))
    evaluate(folder / "checkpoint_last.pt", tmp_path / "pair.tsv", "--json", tmp_path / "t.json", "--device", "cpu")
    assert json.loads((tmp_path / "t.json").read_text())["rows"] == len(TEXT)  # the column is found
    for name, rows, said in (("nan", ["a\tb\tnan"], "nan.tsv:2 has the label 'nan'; the model gives a score, and a number is wanted"),
                             ("few", ["a\tb\t1", "b\ta\t0"], "2 rows have a label; four make a correlation")):  # fmt: skip
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
        assert said in evaluate(folder / "checkpoint_last.pt", tmp_path / f"{name}.tsv", "--predictions", tmp_path / "p.tsv", "--device", "cpu")
        assert (tmp_path / "p.tsv").exists() == (name == "few")  # what was predicted is kept
    assert "--labels is x; the head of" in evaluate(folder / "checkpoint_last.pt", data, "--labels", "x")
    shutil.copy(folder / "checkpoint_last.pt", tmp_path / "beside.pt")
    (tmp_path / "manifest.json").write_text('{"task": "sts-b"}')
    (tmp_path / "one.txt").write_text("the cat\n")
    shutil.copy(pieces / "dict.txt", tmp_path)
    shutil.copy(pieces / "sentencepiece.bpe.model", tmp_path)
    assert "one.txt has 1 texts a line; the model was trained on 2" in evaluate(tmp_path / "beside.pt", tmp_path / "one.txt")


def test_perplexity_is_fairseqs_and_its_masks_do_not_depend_on_the_batch(evaluate, trained, mlm_data, caplog, tmp_path):
    checkpoint, found = trained() / "checkpoint_last.pt", {}
    for name, options in {"one": (), "again": ("--max-tokens", 16), "seed": ("--seed", 2), "short": ("--positions", 8)}.items():
        evaluate(checkpoint, "--perplexity", mlm_data, "--json", tmp_path / f"{name}.json", "--device", "cpu", "--seed", 7, *options)
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["one"]["masked"] == found["again"]["masked"] and found["one"]["bits"] == pytest.approx(found["again"]["bits"], abs=1e-6)
    assert found["seed"]["bits"] != found["one"]["bits"] and found["short"]["positions"] == 8
    caplog.set_level("INFO")
    stock.command("validate", mlm_data, "--user-dir", stock.PLUGIN, "--task", "masked_lm", "--path", checkpoint, "--batch-size", 8, "--cpu",
                  "--num-workers", 0, "--required-batch-size-multiple", 1, "--log-format", "json")  # fmt: skip  (with 8, its default, it leaves out what is over)
    assert found["one"]["bits"] == pytest.approx(stock.last_number(caplog.text, "valid_loss"), abs=0.001)


def change(path, edit):
    checkpoint = torch.load(path, weights_only=True)
    edit(checkpoint["model"])
    torch.save(checkpoint, path)


@pytest.mark.parametrize("arguments, said", [
    (["{ckpt}", "{tmp}/lost.tsv"], "lost.tsv is neither a task .* nor a folder .* nor a file"),
    (["{tmp}/lost.pt", "{table}"], "lost.pt is not a file; a checkpoint of fairseq is wanted"),
    (["{mlm}", "{table}"], "has no classification head; it is not finetuned"),
    (["{ckpt}", "{table}", "--head", "topic"], "--head is topic; .* has animal"),
    (["{ckpt}", "{table}", "--dictionary", "{tmp}/dict.txt"], "there is no .*dict.txt, the dictionary of"),
    (["{ckpt}", "{table}", "--dictionary", "{short}"], "short.txt has 7 entries, .* has embeddings for .*: it is another dictionary"),
    (["{ckpt}", "{table}", "--labels", "{short}"], None),
    (["{ckpt}", "{table}", "--gpt2", "{tmp}"], "encoder.json is not a file; --gpt2 needs a folder"),
    (["{ckpt}", "{table}", "--predictions", "{table}"], "rows.tsv exists; nothing is overwritten"),
    (["{ckpt}", "{table}", "--predictions", "p.csv"], "--predictions is p.csv; it must end in .tsv or .jsonl"),
    (["{ckpt}", "{table}", "--batch-size", "0"], "--batch-size is 0; it must be at least 1"),
    (["{ckpt}", "{table}", "--split", "test"], "--split is given, and .*rows.tsv is a file, which has none"),
    (["{ckpt}", "{table}", "--seed", "3"], "--seed is given; it is for --perplexity"),
    (["{ckpt}", "{table}", "--device", "tpu9"], "--device is tpu9; torch has no such device here"),
    (["{ckpt}", "{table}", "--max-positions", "8"], "--max-positions is 8; .* is of fairseq"),
    (["{ckpt}", "{table}", "--cut", "tail"], "cut is 'tail'; it must be one of head, head\\+tail"),
    (["{ckpt}", "{unknown}"], "unknown.tsv:3 has the label 'bird'; the model's classes are animal: cat, dog"),
    (["{ckpt}", "{data}", "--split", "test"], "there is no .*input0/test.idx; .* has train, valid"),
    (["{ckpt}"], "one of TASK-OR-FILE and --perplexity DATA-BIN is wanted"),
    (["{ckpt}", "sts-b"], "the labels of sts-b are scores; the model's head gives classes"),
    (["{ckpt}", "mnli"], "mnli has the classes entailment, neutral, contradiction; the model's are animal: cat, dog"),
    (["{mlm}", "--perplexity", "{tmp}"], "there is no .*dict.txt, the dictionary of"),
    (["{mlm}", "--perplexity", "{data}", "--positions", "17"], "--positions is 17; it must be between 2 and the model's 16"),
    (["{mlm}", "--perplexity", "{data}", "--positions", "1"], "--positions is 1; it must be between 2"),
    (["{mlm}", "--perplexity", ""], "there is no dict.txt, the dictionary of .*; it lies beside the data"),
    (["{mlm}", "--perplexity", "{data}", "--max-tokens", "0"], "--max-tokens is 0; it must be at least 1"),
    (["{mlm}", "--perplexity", "{data}", "--seed", "-1"], "--seed is -1; it must be from 0 to"),
    (["{mlm}", "--perplexity", "{swapped}"], "is not the dictionary of .*: entry 4 is"),
    (["{ckpt}", "{table}", "--json", "s.jsonl", "--predictions", "s.jsonl"], "--json is s.jsonl; a file of its own is wanted"),
    (["{ckpt}", "{table}", "--json", "-"], "--json is -; a file of its own is wanted"),
    (["{ckpt}", "{table}", "--device", "meta"], "--device is meta; torch has no such device here"),
    (["{ckpt}", "{table}", "--text", "sentence", "--text", "sentence"], "--text names sentence, sentence; one column is wanted, or two"),
    (["{ckpt}", "qqp", "--source", "{tmp}"], "qqp has the classes not_duplicate, duplicate; the model's are animal: cat, dog"),
    (["{mlm}", "--perplexity", "{data}", "--mask-prob", "1"], "--mask-prob is 1.0; it must be above 0 and below 1"),
    (["{mlm}", "--perplexity", "{data}", "--split", "test"], "there is no .*test.idx"),
    (["{mlm}", "--perplexity", "{data}", "--head", "animal"], "--head is given; it is not for --perplexity"),
    (["{hf}", "{table}", "--gpt2", "x"], "--gpt2 is given; it is for a checkpoint of fairseq"),
    (["{hf}", "{data}"], "has the tokens of fairseq, and .* is of transformers"),
    (["{tmp}", "{table}"], "cannot be loaded by transformers"),
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
    assert "is not the dictionary of" in evaluate(finetuned, other, "--device", "cpu")
    shutil.copy(pieces / "dict.txt", other / "input0")
    labels = Dictionary()
    for name in ("dog", "bird"):
        labels.add_symbol(name)
    labels.save(str(other / "label/dict.txt"))
    assert "has the label 'bird'; the model's classes are animal: cat, dog" in evaluate(finetuned, other, "--device", "cpu")


def test_a_damaged_model_is_said(evaluate, finetuned, table, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(finetuned.parent, folder)
    change(folder / finetuned.name, lambda state: state["encoder.sentence_encoder.layers.0.fc1.bias"].fill_(float("nan")))
    assert "the model gives [nan, nan]; its weights are damaged" in evaluate(folder / finetuned.name, table, "--device", "cpu", "--predictions", tmp_path / "p.tsv")
    assert not (tmp_path / "p.tsv").exists()


def test_labels_that_are_numbers_in_another_order(evaluate, finetuned, tmp_path):
    """fairseq's script for GLUE orders them by how frequent they are: entry 0 may be called 1."""
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("".join(["sentence\tlabel\n", *(f"{text}\t{label}\n" for text, label in ROWS)]))
    right = {}
    for order in ("01", "10"):
        (tmp_path / order).write_text("".join(f"{label} 1\n" for label in order))
        evaluate(finetuned, "sst-2", "--source", folder, "--labels", tmp_path / order, "--json", tmp_path / f"{order}.json")
        found = json.loads((tmp_path / f"{order}.json").read_text())
        right[order] = np.trace(found["confusion"])
        assert found["classes"] == list(order) and np.sum(found["confusion"], 1).tolist() == [sum(label == int(name) for _, label in ROWS) for name in order]
    assert right["01"] + right["10"] == len(ROWS) and right["01"] != right["10"]


def test_an_order_of_numbers_is_not_guessed(evaluate, finetuned, pieces, tmp_path):
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    shutil.rmtree(tmp_path / "beside" / "label")
    data, model = tmp_path / "data", tmp_path / "beside" / finetuned.name
    shutil.copytree(pieces, data)
    (data / "label/dict.txt").write_text("1 1\n0 1\n")
    assert "has its labels in the order 1, 0, and nothing beside" in evaluate(model, data)
    (data / "label/dict.txt").write_text("0 1\n1 1\n")
    assert "accuracy" in evaluate(model, data)
    assert f"there is no {tmp_path / 'typo'}; a dictionary of labels is wanted" in evaluate(model, data, "--labels", tmp_path / "typo")


def test_a_label_that_is_no_class_is_named(evaluate, finetuned, pieces, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(pieces, data)
    labels = MMapIndexedDataset(str(data / "label/valid"))
    rows = [[int(token) for token in labels[i]] for i in range(len(labels))]
    rows[2] = [3]  # <unk>
    stock.write_dataset(data / "label", "valid", rows, 8)
    assert f"{data} valid:3 has no label of {data / 'label/dict.txt'}" in evaluate(finetuned, data)


@pytest.mark.parametrize("words", [("--cut", "head"), ("--gpt2", "x"), ("--sentencepiece", "x")])
def test_a_tokenizer_is_not_for_tokens(words, evaluate, finetuned, pieces):
    assert f"{words[0]} is given; {pieces} is prepared and has tokens, not texts" in evaluate(finetuned, pieces, *words)


def test_two_names_of_one_file_are_one_file(evaluate, finetuned, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--json is out.jsonl; a file of its own is wanted" in evaluate(finetuned, table, "--predictions", "./out.jsonl", "--json", "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_text_that_is_cut_off_has_no_perplexity(evaluate, trained, mlm_data, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(mlm_data, data)
    for end, said in (("bin", "valid.bin has .* bytes and valid.idx speaks of"), ("idx", "valid.idx cannot be read")):
        whole = (data / f"valid.{end}").read_bytes()
        (data / f"valid.{end}").write_bytes(whole[:-1] if end == "bin" else whole[:20])
        assert re.search(said, evaluate(trained() / "checkpoint_last.pt", "--perplexity", data)), end
        (data / f"valid.{end}").write_bytes(whole)


def test_texts_are_cut_as_in_training(evaluate, finetuned, tmp_path):
    long = " ".join(["the cat sat"] * 20 + ["dog"])
    (tmp_path / "long.txt").write_text(f"{long}\n")
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    found = {}
    for cut in ("head", "head+tail"):
        (tmp_path / "beside" / "manifest.json").write_text(json.dumps({"cut": cut}))
        found[cut] = evaluate(tmp_path / "beside" / finetuned.name, tmp_path / "long.txt", "--predictions", "-")
        assert found[cut] == evaluate(finetuned, tmp_path / "long.txt", "--predictions", "-", "--cut", cut)
    assert found["head"] != found["head+tail"]
    (tmp_path / "beside" / "manifest.json").write_text("{")
    assert "manifest.json cannot be read; --cut says how texts are cut" in evaluate(tmp_path / "beside" / finetuned.name, tmp_path / "long.txt")


def test_a_dictionary_may_have_the_mask_itself(tmp_path):
    for name, symbols in (("without", "a b"), ("with", "a b <mask>")):
        (tmp_path / name).write_text("".join(f"{symbol} 1\n" for symbol in symbols.split()))
        check_dictionary(tmp_path / name, 7, "model.pt")  # fairseq's own four, and the mask
        with pytest.raises(ValueError, match="has 7 entries"):
            check_dictionary(tmp_path / name, 8, "model.pt")
