"""Small checkpoints to convert and evaluate, trained for some updates, most with noise so that every weight matters."""

import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_linformer.data import sentencepiece_model
from fairseq_linformer.data.tokenizer import SentencePiece
from fairseq_linformer.models import LinformerRobertaModel

from . import fairseq_commands

TEXT = ["the cat sat on the mat", "a dog ran to the mat", "the dog and the cat ran on", "a Cat and a dog sat"]
PARTS = ["a cat", "the cat", "a dog", "the dog"]
ROWS = [(f"{part} {text}", int("cat" in part)) for part in PARTS for text in (*TEXT, "sat", "ran on the mat")]
ROBERTA = ["--arch", "roberta", *fairseq_commands.TINY[2:-2], "--encoder-layers", "2"]


def shake(path, seed: int = 0) -> None:
    """Add noise to all weights of a checkpoint; shared tensors stay shared."""
    checkpoint = torch.load(path, weights_only=True)
    generator = torch.Generator().manual_seed(seed)
    shaken = {}
    for key, value in checkpoint["model"].items():
        if value.is_floating_point() and value.dim() and not key.endswith(".window_options"):
            noisy = value + 0.2 * torch.randn(value.shape, generator=generator)
            checkpoint["model"][key] = shaken.setdefault((value.data_ptr(), value.shape), noisy)
    torch.save(checkpoint, path)


def predict_several_classes(folder: Path, pieces) -> None:
    """Shift the biases of a classifier so that the logits of each class have a mean of 0 over ``TEXT``."""
    path = folder / "checkpoint_last.pt"
    model = hub(folder, pieces)
    (head,) = model.model.classification_heads
    with torch.no_grad():
        logits = torch.cat([model.predict(head, model.encode(text), return_logits=True) for text in TEXT])
    checkpoint = torch.load(path, weights_only=True)
    checkpoint["model"][f"classification_heads.{head}.out_proj.bias"] -= logits.mean(0)
    torch.save(checkpoint, path)


def hub(folder: Path, data, bpe=None, name="checkpoint_last.pt"):
    """fairseq's own interface to a checkpoint."""
    return LinformerRobertaModel.from_pretrained(str(folder), name, str(data), bpe=bpe).eval()


@pytest.fixture(scope="session")
def train_checkpoint(mlm_data, tmp_path_factory):
    """A function that trains with options of ``fairseq-train`` and returns the folder of the checkpoint."""
    made = {}

    def make(*options) -> Path:
        if options not in made:
            made[options] = tmp_path_factory.mktemp("trained")
            fairseq_commands.train(mlm_data, made[options], *options, updates=1)
            shake(made[options] / "checkpoint_last.pt")
        return made[options]

    return make


@pytest.fixture(scope="session")
def train_roberta(mlm_data, tmp_path_factory):
    """A function that trains a RoBERTa with options of ``fairseq-train`` and returns the path of the checkpoint."""

    @cache
    def make(*options) -> Path:
        folder = tmp_path_factory.mktemp("roberta")
        fairseq_commands.train(mlm_data, folder, *options, model=ROBERTA, updates=3)
        return folder / "checkpoint_last.pt"

    return make


def write_sentencepiece(folder, lines, vocab_size=24):
    """Train a model that folds case, and write its dictionary."""
    model = sentencepiece_model.train_model(iter(lines), vocab_size, fold_case=True)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in sentencepiece_model.list_pieces(model)))


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """A folder with a sentencepiece model, its dictionary, and data for both tasks."""
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "text.txt").write_text("\n".join(TEXT * 10) + "\n")
    write_sentencepiece(folder, TEXT * 10)
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    tokenizer = SentencePiece(folder / "sentencepiece.bpe.model")
    lines = [tokenizer.encode([line])[0].tolist() for line in TEXT * 10]
    labels = Dictionary()
    labels.add_symbol("animal: cat")
    labels.add_symbol("dog")
    labels.finalize(padding_factor=8)  # as fairseq-preprocess does
    (folder / "label").mkdir()
    # A symbol that contains a space is kept, as in fairseq.
    labels.save(str(folder / "label" / "dict.txt"))
    for split in ("train", "valid"):
        fairseq_commands.write_dataset(folder, split, lines, len(dictionary))
        fairseq_commands.write_dataset(folder / "input0", split, lines, len(dictionary))
        fairseq_commands.write_dataset(
            folder / "label", split, [[4 + i % 2, labels.eos()] for i in range(len(lines))], len(labels)
        )
    shutil.copy(folder / "dict.txt", folder / "input0")
    return folder


@pytest.fixture(scope="session")
def masked_lm(pieces, tmp_path_factory):
    """A pretrained checkpoint with dictionary and tokenizer next to it."""
    folder = tmp_path_factory.mktemp("masked_lm")
    fairseq_commands.train(pieces, folder, "--sample-break-mode", "complete", updates=2)
    shake(folder / "checkpoint_last.pt")
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(pieces / name, folder)
    return folder


@pytest.fixture(scope="session")
def classifier(pieces, tmp_path_factory):
    """A finetuned checkpoint, validated, with a head called ``animal``."""
    folder = tmp_path_factory.mktemp("classifier")
    words = ["--user-dir", fairseq_commands.PLUGIN, *fairseq_commands.TINY, *fairseq_commands.CLASSIFY]
    words += ["--num-classes", 2, "--classification-head-name", "animal", "--max-update", 2, "--save-dir", folder]
    fairseq_commands.command("train", pieces, *words)
    shake(folder / "checkpoint_last.pt")
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(pieces / name, folder)
    predict_several_classes(folder, pieces)
    return folder


@pytest.fixture(scope="session")
def masked_lm_folder(masked_lm, tmp_path_factory):
    """``masked_lm`` for transformers."""
    pytest.importorskip("transformers")
    from fairseq_linformer.checkpoints.export import export_checkpoint

    folder = tmp_path_factory.mktemp("export") / "mlm"
    export_checkpoint(masked_lm / "checkpoint_last.pt", folder)
    return folder


@pytest.fixture(scope="session")
def classifier_folder(classifier, pieces, tmp_path_factory):
    """``classifier`` for transformers."""
    pytest.importorskip("transformers")
    from fairseq_linformer.checkpoints.export import export_checkpoint

    folder = tmp_path_factory.mktemp("export") / "cls"
    export_checkpoint(classifier / "checkpoint_last.pt", folder, labels=pieces / "label" / "dict.txt")
    return folder


@pytest.fixture(scope="session")
def glue(tmp_path_factory):
    """SST-2 in GLUE's format, with the question whether a sentence is about a cat."""
    folder = tmp_path_factory.mktemp("glue") / "SST-2"
    folder.mkdir()
    for name, rows in (("train", ROWS), ("dev", ROWS[::2])):
        (folder / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return folder
