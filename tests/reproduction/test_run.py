"""Runs: each run's configuration is that of its plan, and seeds are different runs."""

import shutil

import pytest

from fairseq_linformer.reproduction.comparison import branches
from fairseq_linformer.reproduction.paper import figure_3
from fairseq_linformer.reproduction.run import AUTHORS, Model, Run, Trained, build_job, train_runs
from fairseq_linformer.training.job import compose_config
from fairseq_linformer.training.run_folder import write_config

from .. import fairseq_commands

SMOKE = figure_3.SIZES["smoke"]


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "text"
    fairseq_commands.masked_lm_data(folder / "shard0")
    return folder


def options_of(run: Run, scale, folder, text) -> dict[str, str]:
    start = folder / "start.pt" if run.parent else None
    overrides = build_job(run, start, scale, folder, text).overrides
    assert len({each.partition("=")[0] for each in overrides}) == len(overrides)
    return dict(each.split("=", 1) for each in overrides)


def test_every_seed_is_another_run(text, tmp_path):
    """With its own data order, masks and start, and nothing else of its own."""
    for model in figure_3.models_of("cpu"):
        branch = [branches(model, seed, figure_3.SIZES["cpu"])[6000] for seed in (1, 2, 3)]
        for runs in ([run.parent for run in branch], branch):
            options = [options_of(run, figure_3.SIZES["cpu"], tmp_path, text) for run in runs]
            assert [o.pop("common.seed") for o in options] == ["1", "2", "3"]
            assert all(o == options[0] for o in options) and len({run.name for run in runs}) == 3


@pytest.mark.parametrize("name", figure_3.SIZES)
def test_runs_from_scratch_follow_the_plan(name, text, tmp_path):
    """A branch has the learning rate of its run where it leaves it, and decays to 0 at its budget."""
    names = {}
    for model, seed in figure_3.parts_of(name).values():
        sizes = figure_3.sizes_of(name, model)
        for budget, run in branches(model, seed, sizes).items():
            assert names.setdefault(run.name, run) == run and run.branches_at % sizes.validate == 0
            stable, branch = (options_of(each, sizes, tmp_path, text) for each in (run.parent, run))
            assert (stable["lr_scheduler._name"], branch["lr_scheduler._name"]) == ("fixed", "polynomial_decay")
            assert branch["optimization.max_update"] == str(budget)
            assert int(branch["lr_scheduler.warmup_updates"]) == run.branches_at == round(0.8 * budget)
            assert run.branches_at % int(stable["checkpoint.keep_interval_updates_pattern"]) == 0
            assert stable["checkpoint.continue_once"] == "null" != branch["checkpoint.continue_once"]
            assert branch["checkpoint.reset_lr_scheduler"] == "true"
            assert stable["lr_scheduler.warmup_updates"] == str(sizes.warmup) and sizes.warmup < run.parent.updates
            assert stable["optimization.max_update"] == str(run.parent.updates) and sizes.validate <= run.parent.updates
            assert stable["task.tokens_per_sample"] == str(model.n)
            assert (stable["optimization.update_freq"], stable["optimization.clip_norm"]) == ("[1]", "1.0")
            assert (stable["common.bf16"], stable["common.fp16"]) == (str(sizes.bf16).lower(), "false")
            assert stable["++model.encoder_layers"] == str(sizes.layers)
            own = {"checkpoint", "lr_scheduler", "optimization.max_update"}
            assert all(stable[key] == branch[key] for key in branch if not key.startswith(tuple(own)))
            assert int(stable["dataset.batch_size"]) * model.n == sizes.tokens
            assert stable["common.seed"] == str(seed) and stable["optimization.lr"] == f"[{sizes.lr}]"


def test_model_options():
    assert Model(16).overrides == ["++model._name=roberta", "++model.projected_dim=null", "++model.sharing=null"]
    options = Model(16, 8, "key-value", AUTHORS, local_window=2).options
    assert {("projection_init", "normal"), ("projection_lr_scale", 1.0), ("local_window", 2)} <= {*options.items()}
    assert Model.graded(16, 8).options["local_window"] == 0  # a conversion has one of 16 unless it is set


def test_models_at_the_papers_scale():
    """Each is a configuration that exists; two that change one are of their n, k, sharing, start and seed."""
    names = {figure_3.config_name(model) for model in figure_3.models_of("paper")}
    assert names <= {path.stem for path in (figure_3.PRETRAINING_YAML.parent / "run").glob("*.yaml")}
    for model in (figure_3.PANELS["paper"]["a"][-1], figure_3.PANELS["paper"]["c"][0]):
        cfg = compose_config(str(figure_3.PRETRAINING_YAML), [*figure_3.slurm_overrides(model, 2), "task.data=any"])
        assert (cfg.task.tokens_per_sample, cfg.common.seed, cfg.optimization.lr) == (model.n, 2, [0.0005])
        assert cfg.model.get("projected_dim") == model.k and cfg.optimization.max_update == figure_3.PAPER_BUDGET
        assert (cfg.model.sharing, cfg.model.projection_init) == (model.sharing, model.start)


def test_a_finished_run_is_used_after_its_text_has_moved(text, tmp_path):
    run = Run(Model(16, 8), 1, 6)
    job = build_job(run, None, SMOKE, tmp_path, text)
    write_config(job)
    path = job.folder / "config.yaml"
    path.write_text(path.read_text().replace(str(text), "/moved"))
    with pytest.raises(ValueError, match="task.data"):
        train_runs([run], SMOKE, tmp_path, text)
    (job.folder / "done").touch()
    assert train_runs([run], SMOKE, tmp_path, text)[run].folder == job.folder


def test_runs_are_on_one_text(text, tmp_path):
    """Finished runs are used again: not for another text, but for a copy of the same."""
    copy = shutil.copytree(text, tmp_path / "text")
    for each in (text, copy):
        train_runs([], SMOKE, tmp_path / "runs", each)
    (copy / "shard0/valid.bin").write_bytes(b"others")
    with pytest.raises(ValueError, match="runs was made from other inputs: --data must be .*; choose another folder"):
        train_runs([], SMOKE, tmp_path / "runs", copy)


def test_curve_of_a_resumed_run(tmp_path):
    """A later attempt's value replaces that of an earlier one."""
    logs = tmp_path / "logs"
    logs.mkdir()
    line = '2026-01-01 00:00:00 | INFO | valid | {{"valid_loss": "{}", "valid_num_updates": "{}"}}\n'
    (logs / "reproduce.txt").write_text(line.format(8, 2) + line.format(7, 4) + line.format(6.55555, 4))
    assert Trained(tmp_path).curve() == [(2, 8.0), (4, 6.5556)]
