"""The output of ``fairseq-linformer plan``, and the problems that ``--check`` finds."""

import shutil

import pytest

from fairseq_linformer.benchmark.gpus import GPUS
from fairseq_linformer.cli import main
from fairseq_linformer.training import report
from fairseq_linformer.training.compose import compose_config
from fairseq_linformer.training.plan import build_plans
from fairseq_linformer.training.planned_run import VOCAB_SIZE, build_run, read_run

from .runs import PRETRAIN

pytestmark = pytest.mark.slow

V100 = GPUS["v100-16gb"]


def test_command(capsys):
    config = str(PRETRAIN / "run/n1024-k256-key-value.yaml")
    main(["plan", config, "--gpu", "v100-16gb", "--gpus", "64", "--network-gbit", "100"])
    heading, memory, time, overrides = capsys.readouterr().out.split("\n\n")
    assert "n = 1,024, k = 256, key-value: 128,235,609 parameters, 3,145,728 of them in E and F; fp16" in heading
    assert "1,048,576 tokens per update (1,024 sequences), 250,000 updates, 64 x v100-16gb" in heading
    table = {line[:34].strip(): line[34:].split() for line in memory.splitlines()}
    assert table["sequences (batch_size)"] == ["8", "8", "16", "16"]
    parts = ("weights", "gradients", "optimizer", "all-reduce buckets", "activations", "workspace")
    for column, total in enumerate(table["total, of 14.2"]):
        assert sum(float(table[part][column]) for part in parts) == pytest.approx(float(total), abs=0.04)
    assert "all-reduce of 256 MB in 10 buckets" in time and "100 Gbit/s" in time
    slowest, fastest = build_plans(read_run(config), V100, 64, network=100)
    assert "0.08 to 0.22 of 125 TFLOPS" in time and all(source in time for source in V100.utilization_sources)
    assert f" {fastest.hours:,.1f} to {slowest.hours:,.1f} hours" in time and slowest.hours > 2 * fastest.hours
    main(["plan", config, "--gpu", "v100-16gb", "--gpus", "64", "--network-gbit", "100", "--utilization", "0.22"])
    time = capsys.readouterr().out.split("\n\n")[2]
    assert "assuming 0.22 of 125" in time and f" {fastest.hours:,.1f} hours" in time and "published" not in time
    expected = "dataset.batch_size=16 optimization.update_freq=[1] distributed_training.distributed_world_size=64"
    assert overrides.split("\n")[1].strip() == expected


def test_run_that_fits_only_with_recomputation(capsys):
    """The column of stored activations is empty."""
    config = str(PRETRAIN / "base.yaml")
    long = ["task.tokens_per_sample=65536", "dataset.batch_size=1", "optimization.update_freq=[16]"]
    main(["plan", config, *long, "+model.checkpoint_activations=true", "--gpus", "16"])
    _, memory, time, overrides = capsys.readouterr().out.split("\n\n")
    table = {line[:34].strip(): line[34:].split() for line in memory.splitlines()}
    assert table["sequences (batch_size)"] == ["1", "1", "-", "1"]
    assert table["maximum number of sequences"] == ["0", "1"] and table["weights"][2] == "-"
    assert "recomputed" in time and "checkpoint_activations" not in overrides  # the run sets it already


def test_all_configurations_agree():
    table = report.check_runs(PRETRAIN / "base.yaml", V100, None, None, None).splitlines()
    names = [line.split()[0] for line in table]
    base = build_plans(read_run(str(PRETRAIN / "base.yaml")), V100, 64)
    assert f" {base[1].hours:,.1f} to {base[0].hours:,.1f} " in table[1]
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


def find_problems(folder, name, text):
    """The problems of a run with this YAML."""
    path = folder / "run" / f"{name}.yaml"
    path.write_text(f"# @package _global_\n{text}")
    reference = build_run(compose_config(folder / "base.yaml"), VOCAB_SIZE)
    problems = report.check_run(path, folder / "base.yaml", reference)[1]
    assert all(problem.startswith(f"{name}: ") for problem in problems)
    return "\n".join(problems)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("n512-k64-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n", "n512-k128-headwise"),
        (
            "n1024-k256-layerwise",
            "model:\n  max_positions: 1024\n",
            "max_positions must be tokens_per_sample (512), got 1024",
        ),
        (
            "n512-k256-layerwise",
            "dataset:\n  batch_size: 32\n",
            "tokens_per_update must be 1,048,576, as in the base, got 2,097,152",
        ),
        ("n512-k256-layerwise", "optimization:\n  max_update: 1000\n", "got 10,000"),
        (
            "n512-k256-layerwise",
            "optimization:\n  max_update: 1000\n",
            "updates must be 250,000, as in the base, got 1,000",
        ),
        ("mine", "optimization:\n  lr: [0]\n", "got [0"),
        ("mine", "optimization:\n  update_freq: [64]\n", "524,288 with +gpus=x8 too, got 1,048,576"),
    ],
)
def test_contradictory_run_has_a_problem(folder, name, text, message):
    assert message in find_problems(folder, name, text)


def test_consistent_run_has_no_problem(folder):
    assert find_problems(folder, "n512-k128-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n") == ""


def test_wrong_number_of_parameters_is_a_problem(folder, monkeypatch):
    monkeypatch.setattr(report, "count_built_parameters", lambda cfg: 7)
    assert "builds 7 parameters" in find_problems(folder, "mine", "")


def test_check_lists_all_problems_of_a_folder(folder):
    """An override that changes the tokens per update, a batch that does not fit, and an invalid model."""
    override = folder / "gpus/x8.yaml"
    override.write_text(override.read_text().replace("[16]", "[8]"))
    large = "# @package _global_\ndataset:\n  batch_size: 128\noptimization:\n  update_freq: [16]\n"
    (folder / "run/large.yaml").write_text(large)
    (folder / "run/wrong.yaml").write_text("# @package _global_\nmodel:\n  projected_dim: 600\n")
    with pytest.raises(ValueError) as error:
        report.check_runs(folder / "base.yaml", V100, None, 0.3, None)
    first, *lines = str(error.value).splitlines()
    assert str(folder) in first
    assert any("+gpus=x8" in line and "524,288" in line for line in lines)
    assert any(line.startswith("large: ") and V100.name in line for line in lines)
    assert any(line.startswith("wrong: ") and "600" in line for line in lines)
