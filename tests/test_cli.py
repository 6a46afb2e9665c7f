"""``fairseq-linformer convert``: what it writes, and one sentence for what it refuses."""

import pickle

import pytest
import torch

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.cli import main

from .stock import TINY, load, train


@pytest.fixture(scope="module")
def folder(mlm_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    train(mlm_data, folder / "roberta", model=["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"], updates=1)
    train(mlm_data, folder / "linformer", "--projection-lr-scale", "0.5", updates=1)
    return folder


def run(*arguments):
    main([str(a) for a in arguments])


def refused(capsys, *arguments) -> str:
    """The one sentence that a command ends with."""
    with pytest.raises(SystemExit) as end:
        run("convert", *arguments)
    said = end.value.code if isinstance(end.value.code, str) else capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fairseq-linformer") and "\n" not in said
    return said


def test_from_roberta_writes_beside_the_checkpoint(folder, capsys):
    run("convert", "from-roberta", folder / "roberta" / "checkpoint_last.pt", "--projected-dim", "8,4", "--sharing", "key-value")
    out = folder / "roberta" / "checkpoint_last-linformer.pt"
    assert capsys.readouterr().out == (
        f"{out}: --max-positions 16 --projected-dim 8,4 --sharing key-value --projection linear\n"
    )
    assert load(folder / "roberta", out.name)["cfg"]["model"]["projected_dim"] == "8,4"
    assert "exists; nothing is overwritten" in refused(capsys, "from-roberta", folder / "roberta" / "checkpoint_last.pt", "--projected-dim", "8")


def test_what_starts_at_random_is_drawn_from_the_seed(folder):
    matrices = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("convert", "from-roberta", folder / "roberta" / "checkpoint_last.pt", folder / f"{name}.pt", "--projected-dim", "8",
            "--projection", "random", "--seed", seed)  # fmt: skip
        matrices.append(load(folder, f"{name}.pt")["model"]["encoder.sentence_encoder.layers.1.self_attn.F.weight"])
    assert torch.equal(matrices[0], matrices[1]) and not torch.equal(matrices[0], matrices[2])
    k, n = matrices[0].shape
    # The standard error of a standard deviation, relative to it, is 1 / sqrt(2 samples); the seed is fixed.
    assert matrices[0].std().item() == pytest.approx(8**-0.5, rel=3 / (2 * k * n) ** 0.5)


def test_resize(folder, capsys):
    run("convert", "resize", folder / "linformer" / "checkpoint_last.pt", folder / "long.pt", "--max-positions", "32")
    assert "--max-positions 32 --projected-dim 16 --sharing headwise" in capsys.readouterr().out
    assert read_checkpoint(folder / "long.pt")["cfg"]["task"]["tokens_per_sample"] == 32


class Code:
    def __reduce__(self):
        return print, ("this must not be seen",)


def test_files_that_are_no_checkpoints_of_these_models(folder, tmp_path, capsys):
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
    for name, sentence in {
        "truncated.pt": "cannot be read as a checkpoint: it is cut short, or not a file of PyTorch",
        "empty.pt": "cannot be read as a checkpoint",
        "text.pt": "cannot be read as a checkpoint",
        "other.pt": "has neither cfg nor args",
        "list.pt": "has no model in it",
        "no-cfg.pt": "has neither cfg nor args",
        "code.pt": "carries code (print); a checkpoint may hold weights and settings only",
        "pickle.pt": "carries code (print)",
        "missing.pt": "is not a file",
        ".": "is not a file",
    }.items():
        for form in (["resize", "--max-positions", "8"], ["from-roberta", "--projected-dim", "8"]):
            said = refused(capsys, form[0], tmp_path / name, tmp_path / "out.pt", *form[1:])
            assert sentence in said and name.strip(".") in said, (name, said)
    assert not (tmp_path / "out.pt").exists() and "this must not" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ("from-roberta roberta/checkpoint_last.pt x.pt --projected-dim 17", "projected_dim is 17; it must be between 1 and max_positions"),
        ("from-roberta roberta/checkpoint_last.pt x.pt --projected-dim many", "projected_dim is 'many'; it must be a number"),
        ("from-roberta roberta/checkpoint_last.pt nowhere/x.pt --projected-dim 8", "nowhere is not a folder"),
        ("from-roberta linformer/checkpoint_last.pt x.pt --projected-dim 8", "a Linformer already"),
        ("from-roberta roberta/checkpoint_last.pt x.pt", "the following arguments are required: --projected-dim"),
        ("resize linformer/checkpoint_last.pt x.pt", "neither max_positions nor projected_dim is given"),
        ("resize roberta/checkpoint_last.pt x.pt --projected-dim 4", "this RoBERTa has no projections to resize"),
        ("resize linformer/checkpoint_last.pt x.pt --max-positions -4", "max_positions is -4; it must be at least 1"),
        ("resize linformer/checkpoint_last.pt x.pt --max-positions 8 --projected-dim 9", "projected_dim is 9; it must be between 1"),
    ],
)
def test_refusals(folder, capsys, monkeypatch, arguments, sentence):
    monkeypatch.chdir(folder)
    assert sentence in refused(capsys, *arguments.split())
    assert not (folder / "x.pt").exists()


def test_a_development_version_is_refused(folder, mlm_data, tmp_path, caplog):
    checkpoint = load(folder / "linformer")
    checkpoint["model"] = {key: value for key, value in checkpoint["model"].items() if not key.endswith((".start", ".windows"))}
    torch.save(checkpoint, tmp_path / "old.pt")
    with pytest.raises(Exception):
        train(mlm_data, tmp_path / "new", "--finetune-from-model", tmp_path / "old.pt", updates=1)
    assert "the checkpoint is of a development version before 0.2" in caplog.text
