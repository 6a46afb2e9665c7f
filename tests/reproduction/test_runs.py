"""Runs: their plan, their folder, the checkpoint that they start from."""
# ruff: noqa: F811 (fixtures are imported)

import json
import shutil
from dataclasses import replace

import pytest
import torch

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.models.shapes import group_projections, max_positions
from fairseq_linformer.modules.encoder_layer import build_projection
from fairseq_linformer.reproduction.run_folders import RunFolder
from fairseq_linformer.reproduction.runs import (
    WINDOWS,
    Model,
    Run,
    as_authors,
    compared_run,
    default_start,
    in_training_order,
    run_from_scratch,
    trunk,
)
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import checksums

from .trainer import copied_text, finished_runs, runs, text, trainer  # noqa: F401

SMOKE, CPU = SCALES["smoke"], SCALES["cpu"]


# The plan


@pytest.mark.parametrize(
    "model, name",
    [
        (Model(64), "roberta-n64"),
        (Model(64, 16, start="average"), "linformer-n64-k16-headwise-average"),
        (Model(64, 16, "none"), "linformer-n64-k16-none-default"),
        (Model(64, 16, projection="conv"), "linformer-n64-k16-headwise-conv"),
        (Model(64, 16, start="normal", rate=1.0), "linformer-n64-k16-headwise-normal-rate1"),
    ],
)
def test_names(model, name):
    assert model.name == name
    assert Run(model, 3, "scratch", 10).name == f"{name}-scratch/seed3"


def test_trunk_doubles():
    run = trunk(CPU, 64, seed=2)
    assert [(r.model.n, r.made, r.updates, r.seed) for r in run.history] == [
        (16, "scratch", 2000, 2),
        (32, "grown", 400, 2),
        (64, "grown", 400, 2),
    ]
    assert trunk(CPU, 16, 1).history == [Run(Model(16), 1, "scratch", 2000)]


def test_a_shorter_n_waits_while_the_longest_grows():
    """Each n has as many updates before the comparison."""
    of = {n: trunk(CPU, n, 1, longest=64) for n in (16, 32, 64)}
    assert {n: sum(r.updates for r in run.history) for n, run in of.items()} == {16: 2800, 32: 2800, 64: 2800}
    assert [(r.made, r.updates) for r in of[16].history] == [("scratch", 2000), ("waiting", 800)]
    assert [r.made for r in of[64].history] == ["scratch", "grown", "grown"]


def test_compared():
    linformer, roberta = compared_run(Model(32, 8))(CPU, 3), compared_run(Model(32), 64)(CPU, 3)
    assert (linformer.made, linformer.updates, linformer.decays, linformer.seed) == ("converted", 500, True, 3)
    assert linformer.predecessor == trunk(CPU, 32, 3)
    assert roberta.made == "continued-as-n64" and roberta.predecessor.made == "waiting"
    assert run_from_scratch(Model(32, 8))(CPU, 3) == Run(Model(32, 8), 3, "scratch", 2000)


def test_order():
    """Starts first, each once, and the first seed of every model before the second."""
    models = {"a": compared_run(Model(16)), "b": compared_run(Model(16, 8))}
    runs = in_training_order({name: [run(CPU, seed) for seed in (1, 2)] for name, run in models.items()})
    assert [(r.seed, r.made) for r in runs] == [
        (s, made) for s in (1, 2) for made in ("scratch", "continued", "converted")
    ]


def test_described():
    run = compared_run(Model(32, 8))(CPU, 1)
    scratch = {"model": {"n": 16}, "made": "scratch", "updates": 2000, "rate": "constant"}
    grown = {"model": {"n": 32}, "made": "grown", "updates": 400, "rate": "constant", "from": scratch}
    model = {"n": 32, "k": 8, "sharing": "headwise", "projection": "linear", "start": default_start(), "rate": 0.5}
    model |= {"windows": WINDOWS, "local_window": 0}
    assert run.plan() == {"model": model, "made": "converted", "updates": 500, "rate": "to zero", "from": grown}
    assert replace(run, seed=2).plan() == run.plan()


@pytest.mark.parametrize(
    "model",
    [
        Model(64, 16),
        Model(64, 16, "none"),
        Model(64, 16, "layerwise"),
        Model(64, 16, projection="conv"),
        Model(8, 4),
        as_authors(Model(64, 16)),
        Model(64, 16, start="jl", rate=0.125),
    ],
)
def test_a_described_model_is_that_which_is_built(model):
    """A default of the model is described by its value: a record of another default is of another plan."""
    described = model.describe()
    built = LinformerConfig(
        vocab_size=9,
        max_positions=model.n,
        projected_dim=model.k,
        sharing=model.sharing,
        projection=model.projection,
        projection_init=model.start,
        projection_lr_scale=model.rate,
    )
    E = build_projection(built)
    assert (described["start"], described["rate"]) == (built.resolved_init, E.lr_scale)
    assert (described["windows"] == WINDOWS) == (E.layout is not None and E.layout.singletons == 1 and E.proportional)
    assert default_start(model.sharing, model.projection) == replace(model, start=None).describe()["start"]


@pytest.mark.parametrize("kind", ["mean-pool", "max-pool"])
def test_pooling_has_no_start_and_no_rate(kind):
    described = Model(64, 16, projection=kind).describe()
    assert (described["start"], described["rate"]) == (None, None)


# The start


@pytest.fixture
def roberta(finished_runs, tmp_path, text):
    """Finished RoBERTas of two seeds, with the same weights."""
    for seed in (1, 2):
        shutil.copytree(
            finished_runs[0] / "smoke/roberta-n16-scratch/seed1", tmp_path / f"roberta-n16-scratch/seed{seed}"
        )

    def folder(model, made, seed=1):
        return RunFolder(Run(model, seed, made, 4, run_from_scratch(Model(16))(SMOKE, seed)), SMOKE, tmp_path, text)

    return folder


def test_what_is_trained_further_starts_from_the_last_checkpoint(roberta, tmp_path):
    folder = roberta(Model(16), "continued")
    assert (
        folder.initial_checkpoint
        == folder.predecessor.last_checkpoint
        == tmp_path / "roberta-n16-scratch/seed1/checkpoints/checkpoint_last.pt"
    )
    before = folder.initial_checkpoint.read_bytes()
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == before and not (tmp_path / "starts").exists()
    scratch = RunFolder(folder.run.predecessor, SMOKE, tmp_path, folder.text)
    assert scratch.initial_checkpoint is None and scratch.predecessor is None
    scratch.write_initial_checkpoint()


@pytest.mark.parametrize(
    "made, model, n",
    [("grown", Model(32), 32), ("converted", Model(16, 8, "layerwise"), 16), ("grown-at-once", Model(64), 64)],
)
def test_a_start_is_grown_or_converted(roberta, tmp_path, made, model, n):
    folder = roberta(model, made)
    assert folder.initial_checkpoint == tmp_path / f"starts/{folder.run.name}.pt"
    folder.write_initial_checkpoint()
    new = read_checkpoint(folder.initial_checkpoint)
    assert max_positions(new["model"]) == n
    assert bool(group_projections(new["model"])) == (made == "converted")


def converted(folder):
    folder.write_initial_checkpoint()
    return read_checkpoint(folder.initial_checkpoint)["model"]


def same(a, b):
    return all(torch.equal(a[key], b[key]) for key in a)


def test_a_random_start_depends_on_the_seed(roberta):
    """Averages do not, nor do the weights of the RoBERTa."""
    normal = [converted(roberta(Model(16, 8, start="normal"), "converted", seed)) for seed in (1, 2)]
    average = [converted(roberta(Model(16, 8, start="average"), "converted", seed)) for seed in (1, 2)]
    assert same(*average) and not same(*normal)
    different = {
        key.rpartition("self_attn.")[2] for key in normal[0] if not torch.equal(normal[0][key], normal[1][key])
    }
    assert different == {"E.weight", "F.weight"}


def test_a_random_start_is_made_again_alike(roberta):
    folder = roberta(Model(16, 8, start="normal"), "converted")
    first = converted(folder)
    torch.rand(7)
    folder.initial_checkpoint.unlink()
    assert same(first, converted(folder))


def test_a_start_is_kept_once_the_run_has_begun(roberta):
    """Before, it may be of a run that was moved away, or stopped before it began."""
    folder = roberta(Model(32), "grown")
    folder.write_initial_checkpoint()
    made = folder.initial_checkpoint.read_bytes()
    folder.initial_checkpoint.write_bytes(b"of another run")
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == made
    folder.path.mkdir(parents=True)
    (folder.path / ".origin.json").touch()  # stopped before it began
    folder.initial_checkpoint.write_bytes(b"of another run")
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == made
    (folder.path / "config.yaml").touch()  # stopped before its first checkpoint
    folder.initial_checkpoint.write_bytes(b"cut off")
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == made
    folder.last_checkpoint.parent.mkdir()
    folder.last_checkpoint.touch()
    folder.initial_checkpoint.write_bytes(b"begun from this")
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == b"begun from this"
    folder.initial_checkpoint.unlink()
    folder.write_initial_checkpoint()
    assert folder.initial_checkpoint.read_bytes() == made


# What a run was made of

CONVERTED = compared_run(Model(16, 8))(SMOKE, 1)


@pytest.fixture
def converted_run(runs, text):
    return RunFolder(CONVERTED, SMOKE, runs / "smoke", text)


def test_origin(converted_run, text):
    origin = converted_run.describe_inputs()
    assert origin["plan"] == json.loads(json.dumps(CONVERTED.plan())) and origin["text"] == checksums(text)
    assert len(origin["start"]) == 64 and converted_run.predecessor.describe_inputs()["start"] is None
    assert json.loads((converted_run.path / ".origin.json").read_text()) == origin
    converted_run.check_inputs()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"plan": 1, "text": 2}', "[" * 100_000])
def test_a_damaged_origin_is_rejected(converted_run, content):
    (converted_run.path / ".origin.json").write_text(content)
    with pytest.raises(ValueError, match=f"origin.json.*{converted_run.path}"):
        converted_run.check_inputs()


def test_a_missing_origin_is_rejected(converted_run):
    (converted_run.path / ".origin.json").unlink()
    with pytest.raises(ValueError, match="origin.json"):
        converted_run.check_inputs()
    (converted_run.path / "config.yaml").unlink()
    converted_run.check_inputs()  # not begun


def test_another_plan_is_rejected(converted_run):
    other = replace(CONVERTED, predecessor=replace(CONVERTED.predecessor, updates=7))
    with pytest.raises(ValueError, match="seed1 .*plan"):
        RunFolder(other, SMOKE, converted_run.runs, converted_run.text).check_inputs()


def test_another_start_is_rejected(converted_run):
    converted_run.predecessor.last_checkpoint.write_bytes(b"other weights")
    with pytest.raises(ValueError, match="seed1 .*start"):
        converted_run.check_inputs()


def test_another_text_is_rejected(converted_run, copied_text):
    path = copied_text / "shard0/valid.bin"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ValueError, match="seed1 .*text"):
        RunFolder(CONVERTED, SMOKE, converted_run.runs, copied_text).check_inputs()


def test_a_run_that_began_before_its_start_was_finished(converted_run):
    (converted_run.predecessor.path / "done").unlink()
    with pytest.raises(ValueError, match=f"{converted_run.path} .*{converted_run.predecessor.path}"):
        converted_run.check_inputs()


def test_a_moved_text_is_accepted_once_a_run_is_finished(converted_run, copied_text, trainer):
    """Until then it must lie where it was."""
    moved = RunFolder(CONVERTED, SMOKE, converted_run.runs, copied_text)
    moved.check()
    (moved.path / "done").unlink()
    with pytest.raises(ValueError, match="task.data"):
        moved.check()


def test_another_configuration_is_rejected(converted_run, trainer):
    converted_run.check()
    other = RunFolder(CONVERTED, replace(SMOKE, lr=0.5), converted_run.runs, converted_run.text)
    with pytest.raises(ValueError, match="optimization.lr"):
        other.check()
    with pytest.raises(ValueError, match="optimization.lr"):
        other.train(None)
    converted_run.initial_checkpoint.unlink()
    RunFolder(CONVERTED, SMOKE, converted_run.runs, converted_run.text).check()  # the start is made again later


# Training


def test_train(trainer, text, tmp_path):
    folder = RunFolder(run_from_scratch(Model(16))(SMOKE, 1), SMOKE, tmp_path / "runs", text)
    assert not folder.is_done and folder.train(until=None) and folder.is_done
    assert trainer.trained == [folder.run.name] and (folder.path / "logs/reproduce.txt").exists()
    assert json.loads((folder.path / ".origin.json").read_text()) == folder.describe_inputs()
    assert folder.train(None) and len(trainer.trained) == 1


def test_train_stops_in_time(trainer, text, tmp_path):
    folder = RunFolder(run_from_scratch(Model(16))(SMOKE, 1), SMOKE, tmp_path / "runs", text)
    assert not folder.train(until=0.0) and not folder.is_done and (folder.path / "stopped").exists()
    assert folder.train(until=1.0) and folder.is_done


def test_an_origin_of_a_run_that_never_began_is_replaced(trainer, text, tmp_path):
    folder = RunFolder(run_from_scratch(Model(16))(SMOKE, 1), SMOKE, tmp_path / "runs", text)
    folder.path.mkdir(parents=True)
    (folder.path / ".origin.json").write_text("{}")
    folder.train(None)
    folder.check_inputs()
    (folder.path / "done").unlink()
    before = (folder.path / ".origin.json").read_text()
    (folder.path / ".origin.json").write_text(before + "\n")
    folder.train(None)
    assert (folder.path / ".origin.json").read_text() == before + "\n"  # of the beginning
