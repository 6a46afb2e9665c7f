"""``from_pretrained`` returns fairseq's RoBERTa hub interface."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_linformer.models import LinformerRobertaModel

from ..fairseq_commands import TINY, command, finetune, train

pytestmark = pytest.mark.slow

spm = pytest.importorskip("sentencepiece")

ROOT = Path(__file__).parents[2]
TEXT = ["the cat sat on the mat", "a dog ran to the mat", "the dog and the cat ran on", "a cat and a dog sat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pretrained and finetuned model with its sentencepiece model and dictionary."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "text.txt").write_text("\n".join(TEXT * 30) + "\n")
    spm.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "sentencepiece.bpe"), vocab_size=22, minloglevel=2
    )
    model = spm.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    pieces = [model.id_to_piece(i) for i in range(3, len(model))]
    (folder / "srcdict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    (folder / "text.spm").write_text("\n".join(" ".join(model.encode(line, out_type=str)) for line in TEXT * 30) + "\n")
    words = ["--only-source", "--srcdict", folder / "srcdict.txt", "--destdir", folder / "bin"]
    command("preprocess", *words, "--trainpref", folder / "text.spm", "--validpref", folder / "text.spm")
    # Learnt by heart, so that what is missing can be filled in.
    options = "--sample-break-mode complete --tokens-per-sample 32 --dropout 0 --attention-dropout 0 --lr 0.005".split()
    train(folder / "bin", folder, *options, model=[*TINY, "--encoder-normalize-before"], updates=250)
    shutil.copy(folder / "bin" / "dict.txt", folder / "dict.txt")
    return folder


@pytest.fixture(scope="module")
def hub(folder):
    return LinformerRobertaModel.from_pretrained(str(folder), "checkpoint_last.pt").eval()


def test_encode_and_decode(hub):
    tokens = hub.encode("the cat sat on the mat")
    assert tokens[0] == 0 and tokens[-1] == 2
    assert hub.decode(tokens) == "the cat sat on the mat"
    with pytest.raises(ValueError, match="33 > 32"):
        hub.extract_features(torch.full((33,), 5))


def test_loading_is_quiet(folder):
    """A process that only loads a model prints nothing; fairseq would log its whole configuration."""
    code = f"""
from fairseq_linformer.models import LinformerRobertaModel
LinformerRobertaModel.from_pretrained({str(folder)!r}, "checkpoint_last.pt")
"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_fill_mask_predicts_learned_words(hub):
    best, probability, _ = hub.fill_mask("the cat sat on the <mask>at", topk=3)[0]
    assert probability > 0.5 and best.startswith("the cat sat on the")


def test_heads_are_saved_and_loaded(class_data, tmp_path):
    finetune(class_data, tmp_path, *TINY, "--classification-head-name", "odd")
    hub = LinformerRobertaModel.from_pretrained(
        str(tmp_path), "checkpoint_last.pt", class_data, bpe="characters"
    ).eval()
    assert hub.predict("odd", torch.tensor([0, 5, 6, 2])).shape == (1, 2)
    with pytest.raises(ValueError, match="unknown classification head 'even'; the model has odd"):
        hub.predict("even", torch.tensor([0, 5, 6, 2]))
