"""Checkpoints for longer inputs."""

import sys

import pytest
import torch

from fairseq_linformer.checkpoints.lengthen import lengthen, main
from fairseq_linformer.config import SHARING

from ..stock import TINY, load, train


@pytest.mark.parametrize("sharing", SHARING)
def test_positions_repeat_and_projections_stand_along_the_diagonal(mlm_data, tmp_path, sharing):
    train(mlm_data, tmp_path / "short", "--sharing", sharing, updates=2)
    old = load(tmp_path / "short")
    new = lengthen(old, 3)
    key = "encoder.sentence_encoder.embed_positions.weight"
    for copy in range(3):
        start = 2 + 16 * copy
        assert torch.equal(new["model"][key][start : start + 16], old["model"][key][2:])
    name = next(key for key in old["model"] if key.endswith("E.weight"))
    E, long = old["model"][name], new["model"][name]
    assert long.shape[-2:] == (24, 48) and long.shape[:-2] == E.shape[:-2]
    for i in range(3):
        for j in range(3):
            block = long[..., 8 * i : 8 * i + 8, 16 * j : 16 * j + 16]
            assert torch.equal(block, E if i == j else torch.zeros_like(E))
    assert (new["cfg"]["model"]["max_positions"], new["cfg"]["model"]["projected_dim"]) == (48, 24)
    assert old["cfg"]["model"]["max_positions"] == 16

    torch.save(new, tmp_path / "long.pt")
    losses = train(mlm_data, tmp_path / "long", "--sharing", sharing, "--tokens-per-sample", "48", "--projected-dim", "24",
                   "--finetune-from-model", tmp_path / "long.pt", updates=2)  # fmt: skip
    assert len(losses) == 2


def test_roberta_too(mlm_data, tmp_path):
    roberta = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]
    train(mlm_data, tmp_path / "short", model=roberta, updates=1)
    torch.save(lengthen(load(tmp_path / "short"), 2), tmp_path / "long.pt")
    train(mlm_data, tmp_path / "long", "--tokens-per-sample", "32", "--finetune-from-model", tmp_path / "long.pt", model=roberta, updates=1)


def test_command(mlm_data, tmp_path, capsys, monkeypatch):
    train(mlm_data, tmp_path, updates=1)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["lengthen", *map(str, args), "--factor", "2"])
        main()

    run(tmp_path / "checkpoint_last.pt", tmp_path / "long.pt")
    assert "32 positions" in capsys.readouterr().out
    for arguments, sentence in (
        ((tmp_path / "checkpoint_last.pt", tmp_path / "long.pt"), "exists; nothing is overwritten"),
        ((tmp_path / "nothing.pt", tmp_path / "x.pt"), "nothing.pt is not a file"),
    ):
        with pytest.raises(SystemExit) as end:
            run(*arguments)
        assert end.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "x.pt").exists()


@pytest.mark.parametrize("checkpoint, factor, sentence", [({}, 2, "no fairseq checkpoint"), ({"model": {}}, 1, "factor is 1; it must be at least 2")])
def test_bad_input(checkpoint, factor, sentence):
    with pytest.raises(ValueError, match=sentence):
        lengthen(checkpoint, factor)
