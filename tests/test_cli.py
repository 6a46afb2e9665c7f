"""``fairseq-linformer convert``: its output, and one sentence per rejected input."""

import pickle

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
        f"{out}: --max-positions 16 --projected-dim 8,4 --sharing key-value --projection linear --local-window 3\n"
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


class Code:
    def __reduce__(self):
        return print, ("this must not be seen",)


def test_rejects_files_that_are_not_such_checkpoints(folder, tmp_path, capsys):
    whole = (folder / "linformer" / "checkpoint_last.pt").read_bytes()
    (tmp_path / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "text.pt").write_text("a text")
    torch.save({"model": {"decoder.embed_tokens.weight": torch.zeros(3, 3)}}, tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    model = load(folder / "linformer")["model"]
    torch.save({"model": model}, tmp_path / "no-cfg.pt")
    torch.save({"model": model, "cfg": Code()}, tmp_path / "code.pt")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps({"model": Code()}, protocol=2))
    for name, problem in {
        "truncated.pt": "truncated",
        "empty.pt": "truncated",
        "text.pt": "truncated",
        "other.pt": "cfg",
        "list.pt": "'model'",
        "no-cfg.pt": "cfg",
        "code.pt": "code (print)",
        "pickle.pt": "code (print)",
        "missing.pt": "not a file",
        ".": "not a file",
    }.items():
        for form in (["resize", "--max-positions", "8"], ["from-roberta", "--projected-dim", "8"]):
            output = rejected(capsys, form[0], tmp_path / name, tmp_path / "out.pt", *form[1:])
            assert problem in output and name.strip(".") in output, (name, output)
    assert not (tmp_path / "out.pt").exists() and "this must not" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, named",
    [
        ("from-roberta roberta/checkpoint_last.pt x.pt --projected-dim 17", "got 17"),
        ("from-roberta roberta/checkpoint_last.pt x.pt --projected-dim many", "got 'many'"),
        ("from-roberta roberta/checkpoint_last.pt nowhere/x.pt --projected-dim 8", "nowhere"),
        ("from-roberta linformer/checkpoint_last.pt x.pt --projected-dim 8", "Linformer"),
        ("from-roberta roberta/checkpoint_last.pt x.pt", "--projected-dim"),
        ("resize linformer/checkpoint_last.pt x.pt", "max_positions"),
        ("resize roberta/checkpoint_last.pt x.pt --projected-dim 4", "projected_dim"),
        ("resize roberta/checkpoint_last.pt x.pt --max-positions 0", "max_positions must be at least 1, got 0"),
        ("resize linformer/checkpoint_last.pt x.pt --max-positions -4", "max_positions must be at least 1, got -4"),
        ("resize linformer/checkpoint_last.pt x.pt --max-positions 8 --projected-dim 9", "max_positions (8), got 9"),
    ],
)
def test_rejections(folder, capsys, monkeypatch, arguments, named):
    monkeypatch.chdir(folder)
    assert named in rejected(capsys, *arguments.split())
    assert not (folder / "x.pt").exists()


def test_rejects_checkpoints_of_a_development_version(folder, mlm_data, tmp_path, caplog):
    checkpoint = load(folder / "linformer")
    checkpoint["model"] = {
        key: value for key, value in checkpoint["model"].items() if not key.endswith((".start", ".windows"))
    }
    torch.save(checkpoint, tmp_path / "old.pt")
    with pytest.raises(Exception):
        train(mlm_data, tmp_path / "new", "--finetune-from-model", tmp_path / "old.pt", updates=1)
    assert "development version" in caplog.text
