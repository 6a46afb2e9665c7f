"""Models to look at: tiny, made without training."""

import argparse

import pytest
import torch

from fairseq_linformer.checkpoints.files import write_checkpoint
from fairseq_linformer.checkpoints.roberta import from_roberta
from fairseq_linformer.corpus import spm

TEXT = ["the cat sat on the mat", "a dog ran to the mat and sat", "the dog and the cat ran on the mat"]
LAYERS, HEADS, N = 2, 2, 16


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Paragraphs, in documents of three."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join("\n".join(TEXT) for _ in range(20)) + "\n")
    return path


@pytest.fixture(scope="session")
def roberta(text, tmp_path_factory):
    """A checkpoint of fairseq's RoBERTa with random weights, its dictionary and sentencepiece model beside it."""
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel, roberta_base_architecture

    folder = tmp_path_factory.mktemp("roberta")
    (folder / "sentencepiece.bpe.model").write_bytes(spm.train([text], 24, fold_case=True))
    spm.write_dictionary(folder / "sentencepiece.bpe.model", folder / "dict.txt")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(
        arch="roberta", encoder_layers=LAYERS, encoder_embed_dim=16, encoder_ffn_embed_dim=32, encoder_attention_heads=HEADS,
        max_positions=N, tokens_per_sample=N,
    )  # fmt: skip
    roberta_base_architecture(args)
    torch.manual_seed(0)
    model = RobertaModel.build_model(args, argparse.Namespace(source_dictionary=dictionary))
    for parameter in model.parameters():  # as they start, attention is all but uniform
        parameter.data += 0.3 * torch.randn_like(parameter)
    cfg = {"model": {**vars(args), "_name": "roberta"}, "task": {"_name": "masked_lm", "tokens_per_sample": N}}
    write_checkpoint({"model": model.state_dict(), "cfg": cfg, "extra_state": {}}, folder / "model.pt")
    return folder / "model.pt"


@pytest.fixture(scope="session")
def linformer(roberta):
    """A function from options of ``from_roberta`` to a checkpoint beside that RoBERTa."""
    from fairseq_linformer.checkpoints.files import read_checkpoint

    made = {}

    def make(**options):
        key = str(sorted(options.items()))
        if key not in made:
            made[key] = roberta.with_name(f"linformer-{len(made)}.pt")
            torch.manual_seed(1)
            write_checkpoint(from_roberta(read_checkpoint(roberta), **options), made[key])
        return made[key]

    return make
