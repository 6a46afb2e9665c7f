"""``fairseq-linformer convert`` of fairseq checkpoints: its output and its seed."""

import pytest
import torch

from fairseq_linformer.cli import main

from ..fairseq_commands import load


@pytest.fixture(scope="module")
def roberta(train_roberta):
    return train_roberta()


def convert(*words):
    main(["convert", *map(str, words)])


def test_output_for_roberta(roberta, tmp_path, capsys):
    options = ["--projected-dim", "8,4", "--sharing", "key-value", "--local-window", "3"]
    convert(roberta, tmp_path / "out", *options)
    assert capsys.readouterr().out == (
        f"{tmp_path / 'out' / 'model.pt'}: n = 16, k = 8,4, local window = 3\n"
        "without dict.txt and tokenizer, since INPUT has no dict.txt; --dictionary FILE adds both\n"
        "fairseq-train: --arch linformer_roberta --encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 "
        "--encoder-attention-heads 2 --sharing key-value --max-positions 16 --projected-dim 8,4 --local-window 3\n"
    )
    assert load(tmp_path / "out", "model.pt")["cfg"]["model"]["projected_dim"] == "8,4"


def test_seed_determines_random_projections(roberta, tmp_path):
    states = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = ["--projected-dim", "8", "--projection", "random", "--seed", seed]
        convert(roberta, tmp_path / name, *options)
        states.append(load(tmp_path / name, "model.pt")["model"])
    a, b, c = (state["encoder.sentence_encoder.layers.1.self_attn.F.delta"] for state in states)
    assert torch.equal(a, b) and not torch.equal(a, c)
    drawn = torch.cat([value for key, value in states[0].items() if key.endswith((".E.delta", ".F.delta"))])
    assert drawn.numel() == 4 * 8 * 16 and drawn.std().item() == pytest.approx(8**-0.5, rel=0.1)
