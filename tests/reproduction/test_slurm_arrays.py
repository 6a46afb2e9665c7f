"""The arrays of Figure 3 and Table 2 at the paper's scale."""

import pytest

from fairseq_linformer.reproduction.experiments import array_jobs, figure_3, table_2
from fairseq_linformer.reproduction.result import Inputs
from fairseq_linformer.reproduction.run import CONFIG, Model, as_authors
from fairseq_linformer.reproduction.scales import PAPER
from fairseq_linformer.reproduction.statistics import MIN_SEEDS
from fairseq_linformer.training.compose import compose_config


@pytest.mark.parametrize(
    "model, seed, overrides",
    [
        (Model(512), 1, ["+run=n512-roberta"]),
        (Model(512, 128), 2, ["+run=n512-k128-headwise", "common.seed=2"]),
        (as_authors(Model(512, 256, "layerwise")), 1, ["+run=n512-k256-layerwise", "+start=authors"]),
        (Model(512, 256, "none", start="average"), 1, ["+run=n512-k256-none", "++model.projection_init=average"]),
        (Model(512, 256, rate=2**-8), 1, ["+run=n512-k256-headwise", "++model.projection_lr_scale=0.00390625"]),
    ],
)
def test_overrides_by_hand(model, seed, overrides):
    assert figure_3.slurm_overrides(model, seed) == overrides


@pytest.mark.parametrize("panel, number", [("a", 7), ("b", 7), ("c", 9), ("d", 12)])
def test_figure_3(panel, number):
    """Every model with three seeds, each a configuration that exists, of the model's n, k and sharing."""
    jobs = array_jobs(f"figure-3{panel}", "runs", None, "cuda")
    models = figure_3.models_of(panel, PAPER)
    assert len(jobs) == MIN_SEEDS * len(models) == 3 * number and len({*jobs}) == len(jobs)
    for model, job in zip(models.values(), jobs):
        cfg = compose_config(job.config, [*job.overrides, "task.data=any"])
        assert (cfg.task.tokens_per_sample, cfg.common.seed) == (model.n, 1)
        assert cfg.model.get("projected_dim") == model.k and cfg.optimization.lr == [0.0005]
        if model.k is not None:
            assert cfg.model.sharing == model.sharing


def test_pretraining():
    """Every run of the paper once, each of ``configs/pretrain/run``."""
    jobs = array_jobs("pretraining", "runs", None, "cuda")
    assert len({*jobs}) == len(jobs)
    there = {path.stem for path in (CONFIG.parent / "run").glob("*.yaml")} - {"tiny"}
    assert {job.overrides[0].removeprefix("+run=") for job in jobs} == there


@pytest.mark.parametrize(
    "name, tasks, words",
    [
        ("figure-9", None, "unknown --array 'figure-9'; choose from figure-3a"),
        ("table-2", None, "--array table-2 needs --tasks"),
        ("table-2", "tasks", "n512-roberta must be a finished pretraining"),
    ],
)
def test_errors(name, tasks, words):
    with pytest.raises(ValueError, match=words):
        array_jobs(name, "runs", tasks, "cuda")


def test_what_is_not_trained_is_named(tmp_path):
    inputs = Inputs("", tmp_path, data=tmp_path, tasks=tmp_path)
    with pytest.raises(ValueError, match=r"n512-roberta is not trained; .*submit --array figure-3a"):
        figure_3.run("a", "paper", inputs)
    with pytest.raises(ValueError, match="n512-roberta must be a finished pretraining"):
        table_2.run("sst-2: roberta", "paper", inputs)
