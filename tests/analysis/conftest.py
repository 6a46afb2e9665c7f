"""Tiny models with random weights, and the text they are analyzed on."""

import argparse

import pytest
import torch

from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.sentences import Sentences
from fairseq_linformer.checkpoints.files import read_checkpoint, write_checkpoint
from fairseq_linformer.checkpoints.to_linformer import to_linformer

from ..checkpoint_fixtures import write_sentencepiece
from ..checkpoints.encoders import save_encoder

TEXT = ["the cat sat on the mat", "a dog ran to the mat and sat", "the dog and the cat ran on the mat"]
LAYERS, HEADS, N = 2, 2, 16


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Paragraphs, in documents of three."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join("\n".join(TEXT) for _ in range(20)) + "\n")
    return path


@pytest.fixture(scope="session")
def roberta(text, tmp_path_factory):
    """A checkpoint of fairseq's RoBERTa with random weights, next to its dictionary and sentencepiece model."""
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel, roberta_base_architecture

    folder = tmp_path_factory.mktemp("roberta")
    write_sentencepiece(folder, text.read_text().splitlines())
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(
        arch="roberta",
        encoder_layers=LAYERS,
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=32,
        encoder_attention_heads=HEADS,
        max_positions=N,
        tokens_per_sample=N,
    )
    roberta_base_architecture(args)
    torch.manual_seed(0)
    model = RobertaModel.build_model(args, argparse.Namespace(source_dictionary=dictionary))
    for parameter in model.parameters():  # with fairseq's initialization attention is nearly uniform
        parameter.data += 0.3 * torch.randn_like(parameter)
    cfg = {"model": {**vars(args), "_name": "roberta"}, "task": {"_name": "masked_lm", "tokens_per_sample": N}}
    write_checkpoint({"model": model.state_dict(), "cfg": cfg, "extra_state": {}}, folder / "model.pt")
    return folder / "model.pt"


@pytest.fixture(scope="session")
def linformer(roberta):
    """A function from options of ``to_linformer`` to the checkpoint of a converted RoBERTa."""
    checkpoints = {}

    def convert(**options):
        key = str(sorted(options.items()))
        if key not in checkpoints:
            checkpoints[key] = roberta.with_name(f"linformer-{len(checkpoints)}.pt")
            torch.manual_seed(1)
            write_checkpoint(to_linformer(read_checkpoint(roberta), **{"local_window": 0, **options}), checkpoints[key])
        return checkpoints[key]

    return convert


@pytest.fixture(scope="session")
def model(roberta):
    """The RoBERTa, loaded."""
    return load_model(roberta)


@pytest.fixture(scope="session")
def sentences(text):
    """A function from a loaded model and options of ``Sentences`` to the sentences of the text, or of ``path``."""
    return lambda model, path=text, n=N, **options: Sentences(str(path), model, n, **options)


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """Folder of a model of transformers."""
    return save_encoder(tmp_path_factory.mktemp("bert"), "bert", head=False)
