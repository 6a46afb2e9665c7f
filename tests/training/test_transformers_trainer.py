"""Finetuning of a small random BERT with the same recipe."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")

from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from fairseq_linformer.cli import main
from fairseq_linformer.task_data.tasks import TASKS
from fairseq_linformer.training import transformers_trainer
from fairseq_linformer.training.transformers_trainer import _checksum_rows, _checksum_weights, _read_examples

from ..checkpoint_fixtures import TEXT

ROWS = [(f"{part} {text}", int("cat" in part)) for part in ("a cat", "the cat", "a dog", "the dog") for text in TEXT]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A pretrained model as on the hub, without a classification head."""
    folder = tmp_path_factory.mktemp("bert") / "bert-base-uncased"
    folder.mkdir()
    words = sorted({word for text, _ in ROWS for word in text.lower().split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = dict(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=20
    )
    BertForMaskedLM(BertConfig(vocab_size=len(words) + 5, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture
def finetune(bert, tmp_path, capsys):
    source = tmp_path / "SST-2"
    source.mkdir()
    for name, rows in (("train", ROWS), ("dev", ROWS[::2])):
        (source / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))

    def finetune(*words, model=bert):
        try:
            main(
                [
                    "finetune",
                    "sst-2",
                    str(model),
                    "--source",
                    str(source),
                    "--runs",
                    str(tmp_path / "runs"),
                    "--device",
                    "cpu",
                    "--max-epoch",
                    "2",
                    "--batch-size",
                    "4",
                    "--name",
                    "bert",
                    *map(str, words),
                ]
            )
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return finetune


@pytest.mark.slow
def test_from_pretraining_to_scores(finetune, bert, tmp_path, capsys):
    (tmp_path / "runs/bert/trainer/checkpoint-8").mkdir(parents=True)  # incomplete, from a killed process
    sums = dict(
        weights=_checksum_weights(str(bert)),
        rows=_checksum_rows(_read_examples(TASKS["sst-2"], str(tmp_path / "SST-2"))),
    )
    recipe = dict(
        model=str(bert),
        task="sst-2",
        source=str(tmp_path / "SST-2"),
        max_positions=None,
        lr=5e-3,
        batch_size=4,
        epochs=2,
        seed=1,
        **sums,
    )
    (tmp_path / "runs/bert/recipe.json").write_text(json.dumps(recipe))
    output = finetune("--lr", 5e-3)
    assert "accuracy" in output, output
    result = json.loads((tmp_path / "runs/bert/result.json").read_text())
    accuracy = result["splits"]["valid"]["scores"]["accuracy"]["value"]
    assert f"accuracy {100 * accuracy:.2f} %" in output and result["splits"]["valid"]["rows"] == len(ROWS[::2])
    assert result["model"]["max_positions"] == 20 and result["model"]["updates"] == 2 * len(ROWS) // 4
    main(
        [
            "evaluate",
            str(tmp_path / "runs/bert/best"),
            str(tmp_path / "SST-2/dev.tsv"),
            "--json",
            str(tmp_path / "s.json"),
        ]
    )
    capsys.readouterr()
    assert json.loads((tmp_path / "s.json").read_text())["scores"]["accuracy"]["value"] == accuracy
    assert finetune("--lr", 5e-3).splitlines() == output.splitlines()[:2]  # nothing is repeated
    assert re.search("bert .*lr must be 0.005, got 0.001", finetune("--lr", 1e-3))
    # The names stay the same, but their content changes.
    dev, weights = tmp_path / "SST-2/dev.tsv", tmp_path / "bert/model.safetensors"
    was = dev.read_bytes()
    dev.write_bytes(was + was.split(b"\n")[1] + b"\n")
    assert f"different rows: {tmp_path}/SST-2 has changed" in finetune("--lr", 5e-3)
    dev.write_bytes(was)
    shutil.copytree(bert, tmp_path / "bert")
    assert "accuracy" in finetune("--name", "copy", model=tmp_path / "bert")
    save_file({name: tensor + 1 for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    assert f"different weights: {tmp_path}/bert has changed" in finetune("--name", "copy", model=tmp_path / "bert")
    (tmp_path / "runs/bert/recipe.json").write_text("[")
    assert "recipe.json is damaged" in finetune("--lr", 5e-3)


@pytest.mark.slow
def test_rejections(finetune, bert, tmp_path):
    if not torch.cuda.is_available():
        assert "--device cuda needs" in finetune("--device", "cuda") and not (tmp_path / "runs").exists()
    assert re.search(r"training failed at update \d+: loss", finetune("--lr", 1e30))
    assert not (tmp_path / "runs/bert/result.json").exists()
    assert "got ../up" in finetune("--name", "../up")
    assert re.search("/nowhere is not a folder", finetune("--name", "other", model=tmp_path / "nowhere"))
    assert "got 30" in finetune("--name", "third", "--max-positions", 30)


def test_a_model_that_cannot_be_loaded_is_rejected_before_the_task_is_read(finetune, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers_trainer, "_read_examples", lambda *_: pytest.fail("the task was read"))
    assert re.search("/nowhere is not a folder", finetune(model=tmp_path / "nowhere"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("damage", ["missing", "another shape"])
def test_a_model_without_all_weights_is_rejected(damage, finetune, bert, tmp_path):
    """Those would be random."""
    folder = shutil.copytree(bert, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    key = next(key for key in weights if key.endswith("attention.self.query.weight"))
    if damage == "missing":
        del weights[key]
    else:
        weights[key] = torch.zeros(8, 8)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert re.search(rf"weights of .*model do not match its config.json: {key}.*{damage}", finetune(model=folder))
    assert not (tmp_path / "runs").exists()


def test_rejects_evaluation_without_a_trained_head(bert, tmp_path):
    (tmp_path / "a.txt").write_text("a cat\n")
    with pytest.raises(SystemExit, match="trained classification head"):
        main(["evaluate", str(bert), str(tmp_path / "a.txt")])
