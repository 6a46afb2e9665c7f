"""What ``fairseq-linformer plan`` prints, and which configurations ``--check`` finds wrong."""

import shutil

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.planning import report
from fairseq_linformer.planning.configs import VOCABULARY, compose_config, run_of
from fairseq_linformer.planning.gpus import GPUS

from .runs import PRETRAIN

pytestmark = pytest.mark.slow

V100 = GPUS["v100-16gb"]


def test_the_command(capsys):
    config = str(PRETRAIN / "run/n1024-k256-key-value.yaml")
    main(["plan", config, "--gpu", "v100-16gb", "--gpus", "64", "--network-gbit", "100"])
    heading, memory, time, overrides = capsys.readouterr().out.split("\n\n")
    assert "n = 1,024, k = 256, key-value: 128,235,609 parameters, 3,145,728 of them in E and F; fp16" in heading
    assert "1,048,576 tokens an update (1,024 sequences), 250,000 updates, 64 x v100-16gb" in heading
    table = {line[:34].strip(): line[34:].split() for line in memory.splitlines()}
    assert table["sequences at once (batch_size)"] == ["8", "8", "16", "16"]
    parts = ("weights", "gradients", "optimizer", "all-reduce buckets", "activations", "workspace")
    for column, total in enumerate(table["in all, of 14.2"]):
        assert sum(float(table[part][column]) for part in parts) == pytest.approx(float(total), abs=0.04)
    assert "all-reduce 256 MB in 10 buckets" in time and "100 Gbit/s" in time
    expected = "dataset.batch_size=16 optimization.update_freq=[1] distributed_training.distributed_world_size=64"
    assert overrides.split("\n")[1].strip() == expected


def test_a_run_that_fits_recomputed_only(capsys):
    """The columns of what does not fit are empty."""
    config = str(PRETRAIN / "base.yaml")
    long = ["task.tokens_per_sample=65536", "dataset.batch_size=1", "optimization.update_freq=[16]"]
    main(["plan", config, *long, "+model.checkpoint_activations=true", "--gpus", "16"])
    _, memory, time, overrides = capsys.readouterr().out.split("\n\n")
    table = {line[:34].strip(): line[34:].split() for line in memory.splitlines()}
    assert table["sequences at once (batch_size)"] == ["1", "1", "-", "1"]
    assert table["sequences that memory allows"] == ["0", "1"] and table["weights"][2] == "-"
    assert "recomputed" in time and "checkpoint_activations" not in overrides  # the run says so already


def test_all_configurations_agree():
    table = report.check(PRETRAIN / "base.yaml", V100, None, 0.3, None).splitlines()
    names = [line.split()[0] for line in table]
    assert names[:3] == ["run", "base", "n512-roberta"] and names[-2:] == ["tiny", "all"]  # in the order of n and k
    assert set(names[2:-1]) == {path.stem for path in PRETRAIN.glob("run/*.yaml")}


@pytest.fixture
def folder(tmp_path):
    """The base, and one file in gpus/."""
    for name in ("base.yaml", "gpus/x8.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(PRETRAIN / name, tmp_path / name)
    (tmp_path / "run").mkdir()
    return tmp_path


def problems(folder, name, text):
    """Of one run."""
    path = folder / "run" / f"{name}.yaml"
    path.write_text(f"# @package _global_\n{text}")
    reference = run_of(compose_config(folder / "base.yaml"), VOCABULARY)
    found = report.check_run(path, folder / "base.yaml", reference)[1]
    assert all(problem.startswith(f"{name}: ") for problem in found)
    return "\n".join(found)


@pytest.mark.parametrize("name, text, token", [
    ("n512-k64-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n", "those of n512-k128-headwise"),
    ("n1024-k256-layerwise", "model:\n  max_positions: 1024\n", "n is 512 in samples and 1024 in the model"),
    ("n512-k256-layerwise", "dataset:\n  batch_size: 32\n", "tokens_of_update is 2,097,152"),
    ("n512-k256-layerwise", "optimization:\n  max_update: 1000\n", "warmup_updates is 10,000"),
    ("n512-k256-layerwise", "optimization:\n  max_update: 1000\n", "updates is 1,000"),
    ("mine", "optimization:\n  lr: [0]\n", "lr is [0"),
    ("mine", "optimization:\n  update_freq: [64]\n", "with +gpus=x8 an update has 1,048,576 tokens, without 524,288"),
])  # fmt: skip
def test_a_run_that_does_not_agree_is_found(folder, name, text, token):
    assert token in problems(folder, name, text)


def test_a_run_that_agrees_has_no_problem(folder):
    assert problems(folder, "n512-k128-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n") == ""


def test_parameters_that_are_not_those_of_the_formulas_are_found(folder, monkeypatch):
    monkeypatch.setattr(report, "count_built", lambda cfg: 7)
    assert "7 parameters are built" in problems(folder, "mine", "")


def test_the_check_says_what_is_wrong_with_the_folder(folder):
    """An override that changes the update, a batch that does not fit, and a model that cannot be."""
    override = folder / "gpus/x8.yaml"
    override.write_text(override.read_text().replace("[16]", "[8]"))
    large = "# @package _global_\ndataset:\n  batch_size: 128\noptimization:\n  update_freq: [16]\n"
    (folder / "run/large.yaml").write_text(large)
    (folder / "run/wrong.yaml").write_text("# @package _global_\nmodel:\n  projected_dim: 600\n")
    with pytest.raises(ValueError) as refusal:
        report.check(folder / "base.yaml", V100, None, 0.3, None)
    first, *found = str(refusal.value).splitlines()
    assert str(folder) in first
    assert any("+gpus=x8" in line and "524,288" in line for line in found)
    assert any(line.startswith("large: ") and V100.name in line for line in found)
    assert any(line.startswith("wrong: ") and "600" in line for line in found)
