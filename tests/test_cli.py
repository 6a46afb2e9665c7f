"""``fairseq-linformer convert``: its output, and one sentence per rejected input."""

import pytest
import torch

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.cli import main

from .fairseq_commands import TINY, load, train


@pytest.fixture(scope="module")
def folder(mlm_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    train(mlm_data, folder / "roberta", model=["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"], updates=1)
    train(mlm_data, folder / "linformer", "--projection-lr-scale", "0.5", updates=1)
    return folder


def run(*arguments):
    main([str(a) for a in arguments])


def rejected(capsys, *arguments) -> str:
    """Run a command that fails, and return its message."""
    with pytest.raises(SystemExit) as end:
        run("convert", *arguments)
    output = end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err.splitlines()[-1]
    assert output.startswith("fairseq-linformer") and "\n" not in output
    return output


@pytest.mark.slow
def test_from_roberta_writes_next_to_the_checkpoint(folder, capsys):
    run(
        "convert",
        "from-roberta",
        folder / "roberta" / "checkpoint_last.pt",
        "--projected-dim",
        "8,4",
        "--sharing",
        "key-value",
        "--local-window",
        "3",
    )
    out = folder / "roberta" / "checkpoint_last-linformer.pt"
    assert capsys.readouterr().out == (
        f"{out}: --arch linformer_roberta --max-positions 16 --projected-dim 8,4 --sharing key-value "
        "--projection linear --local-window 3 --encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 "
        "--encoder-attention-heads 2\n"
    )
    assert load(folder / "roberta", out.name)["cfg"]["model"]["projected_dim"] == "8,4"
    again = rejected(capsys, "from-roberta", folder / "roberta" / "checkpoint_last.pt", "--projected-dim", "8")
    assert str(out) in again and "exists" in again


def test_seed_determines_random_projections(folder):
    matrices = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(
            "convert",
            "from-roberta",
            folder / "roberta" / "checkpoint_last.pt",
            folder / f"{name}.pt",
            "--projected-dim",
            "8",
            "--projection",
            "random",
            "--seed",
            seed,
        )
        matrices.append(load(folder, f"{name}.pt")["model"]["encoder.sentence_encoder.layers.1.self_attn.F.weight"])
    assert torch.equal(matrices[0], matrices[1]) and not torch.equal(matrices[0], matrices[2])
    state = load(folder, "a.pt")["model"]
    drawn = torch.cat([value for key, value in state.items() if key.endswith((".E.weight", ".F.weight"))])
    assert drawn.numel() == 4 * 8 * 16 and drawn.std().item() == pytest.approx(8**-0.5, rel=0.1)


def test_resize(folder, capsys):
    run("convert", "resize", folder / "linformer" / "checkpoint_last.pt", folder / "long.pt", "--max-positions", "32")
    assert "--max-positions 32 --projected-dim 16 --sharing headwise" in capsys.readouterr().out
    assert read_checkpoint(folder / "long.pt")["cfg"]["task"]["tokens_per_sample"] == 32
