"""Compared models have the same data, seeds, updates and schedule, and each is trained once."""

from dataclasses import replace

import pytest

from fairseq_linformer.reproduction.experiments.figure_3 import OWN_START, SHARINGS
from fairseq_linformer.reproduction.finetuning_plan import SIZES, members, pretrainings
from fairseq_linformer.reproduction.records import as_json
from fairseq_linformer.reproduction.registry import experiments, find
from fairseq_linformer.reproduction.runs import AUTHORS, Model, as_authors, default_start, in_training_order
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.training import TrainingExperiment

CPU = SCALES["cpu"]
TRAINED = [each.name for each in experiments() if isinstance(each, TrainingExperiment) and len(each.plan(CPU)) > 1]
"""The experiments that compare models."""


def plan(name, scale="cpu"):
    return find(name).plan(SCALES[scale])


def total(run):
    return sum(each.updates for each in run.history)


def test_what_is_trained():
    assert sorted(TRAINED) == [
        "figure-3a",
        "figure-3b",
        "figure-3c",
        "figure-3d",
        "growing",
        "local-window",
        "local-window-long",
        "projections",
        "scratch",
        "starts",
        "warm-start",
        "window-sizes",
    ]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TRAINED)
def test_models_differ_only_in_what_is_compared(name, scale):
    models = plan(name, scale)
    assert models["roberta"][0].model.k is None
    for runs in models.values():
        assert [run.seed for run in runs] == list(SCALES[scale].seeds)
        assert all(each.seed == run.seed for run in runs for each in run.history)
    for runs in zip(*models.values()):
        assert len({total(run) for run in runs}) == 1
        if name != "growing":  # whose last stages differ in length
            assert len({(run.updates, run.decays) for run in runs}) == 1
        if name != "figure-3d":
            assert len({run.model.n for run in runs}) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_runs_are_shared_by_name_and_come_after_their_start(scale):
    by_name = {}
    for name in TRAINED:
        every = in_training_order(plan(name, scale))
        for i, run in enumerate(every):
            assert run.predecessor is None or run.predecessor in every[:i]
            assert by_name.setdefault(run.name, run) == run  # in whichever experiment
        assert len(set(every)) == len(every)


def test_the_first_seed_of_every_model_is_trained_first():
    seeds = [run.seed for run in in_training_order(plan("figure-3a"))]
    assert seeds == sorted(seeds) and set(seeds) == {1, 2, 3}


def linformers(models):
    return {label: runs[0].model for label, runs in models.items() if runs[0].model.k}


def test_figure_3a():
    models = plan("figure-3a")
    assert list(models) == [
        "roberta",
        *(f"k={k}" for k in (4, 8, 16, 32, 64)),
        *(f"k={k}{AUTHORS}" for k in (4, 8, 16, 32)),  # with k = n every start is the identity
    ]
    assert linformers(models) == {f"k={k}": Model(64, k) for k in (4, 8, 16, 32, 64)} | {
        f"k={k}{AUTHORS}": Model(64, k, start="normal", rate=1.0) for k in (4, 8, 16, 32)
    }
    every = in_training_order(models)
    assert [run.name for run in every[:5]] == [
        "roberta-n16-scratch/seed1",
        "roberta-n32-grown/seed1",
        "roberta-n64-grown/seed1",
        "roberta-n64-continued/seed1",
        "linformer-n64-k4-headwise-default-converted/seed1",
    ]
    assert len(every) == 39 and sum(run.updates for run in every) == 3 * (2000 + 2 * 400 + 10 * 500)
    cost = find("figure-3a").cost("cpu")
    assert "39 runs" in cost and "23,400 updates" in cost and "47.9 M" in cost
    longer = plan("figure-3b")
    assert list(longer)[1:6] == ["k=8", "k=16", "k=32", "k=64", "k=128"]
    grown = longer["k=32"][0].predecessor
    assert grown.name == "roberta-n128-grown/seed1" and grown.predecessor == every[2]


def test_figure_3a_on_a_gpu():
    """The paper's k, one model with a local window, and no authors' initialization."""
    quarter = Model(512, 128)
    assert linformers(plan("figure-3a", "gpu")) == {
        "k=64": Model(512, 64),
        "k=128": quarter,
        "k=256": Model(512, 256),
        "k=128, W=16": replace(quarter, local_window=16),
    }


def test_figure_3c_has_the_same_start_for_every_sharing():
    """That of layerwise sharing; the defaults of the others and the authors' initialization of all are reported too."""
    models = linformers(plan("figure-3c"))
    compared = {sharing: models.pop(sharing) for sharing in SHARINGS}
    assert {sharing: (model.n, model.k, model.sharing) for sharing, model in compared.items()} == {
        sharing: (64, 16, sharing) for sharing in SHARINGS
    }
    assert {described["start"] for described in map(Model.describe, compared.values())} == {default_start("layerwise")}
    assert {s + AUTHORS: as_authors(model) for s, model in compared.items()}.items() <= models.items()
    rest = {label: model for label, model in models.items() if not label.endswith(AUTHORS)}
    assert rest == {s + OWN_START: Model(64, 16, s) for s in SHARINGS if default_start(s) != default_start("layerwise")}


def test_shorter_models_of_figure_3d_wait_while_longer_ones_grow():
    starts = {label: runs[0].predecessor for label, runs in plan("figure-3d").items()}
    assert starts["roberta"] == starts["n=64"] and starts["roberta n=512"] == starts["n=512"]
    assert (starts["n=64"].name, starts["n=64"].updates) == ("roberta-n64-waiting/seed1", 4 * 400)
    assert (starts["n=512"].made, starts["n=512"].updates, starts["n=1024"].made) == ("waiting", 400, "grown")
    run = plan("figure-3d")["n=64"][0]
    name = "linformer-n64-k32-headwise-default-rate0.015625-converted-as-n1024/seed1"
    assert run.name == name  # that of Figure 3 (a) is another
    assert {runs[0].model.k for label, runs in plan("figure-3d").items() if label.startswith("n=")} == {32}


@pytest.mark.parametrize("scale, rate", [("cpu", 16 / 1024), ("gpu", 16 / 4096)])
def test_every_n_of_figure_3d_learns_at_the_rate_of_the_longest(scale, rate):
    models = linformers(plan("figure-3d", scale))
    ours = {label: model for label, model in models.items() if not label.endswith(AUTHORS)}
    assert (
        {model.rate for model in ours.values()} == {rate} == {Model(max(SCALES[scale].lengths), 8).describe()["rate"]}
    )
    assert {model.start for model in ours.values()} == {None}
    assert {label: as_authors(model) for label, model in ours.items()} == {
        label.removesuffix(AUTHORS): model for label, model in models.items() if label not in ours
    }


def test_growing():
    models = {label: runs[0] for label, runs in plan("growing").items()}
    assert {run.model for run in models.values()} == {Model(128)}
    assert [run.made for run in models["roberta"].history] == ["scratch", "grown", "grown", "grown"]
    assert (models["at once"].updates, models["at once"].predecessor.model.n, models["from scratch"].predecessor) == (
        3 * 400,
        16,
        None,
    )
    assert total(models["from scratch"]) == 3200 and len({run.name for run in models.values()}) == 3


def test_projections():
    """Linear and conv have the same initialization; linear with its default is reported too."""
    models = linformers(plan("projections"))
    kinds = {"linear": "linear", "linear" + OWN_START: "linear", **{k: k for k in ("conv", "mean-pool", "max-pool")}}
    assert {label: (model.n, model.k, model.projection) for label, model in models.items()} == {
        label: (64, 16, kind) for label, kind in kinds.items()
    }
    assert models["linear"].describe()["start"] == models["conv"].describe()["start"]
    assert models["linear" + OWN_START].start is None


def test_starts():
    models = linformers(plan("starts"))
    assert {label: (model.k, model.start, model.rate) for label, model in models.items()} == {
        "average": (16, "average", None),
        "normal": (16, "normal", None),
        "default": (16, None, None),
        "normal at the full rate": (16, "normal", 1.0),
    }
    assert plan("starts")["normal at the full rate"][0].name.endswith("-normal-rate1-converted/seed1")


def test_scratch_and_warm_start():
    models = {label: runs[0] for label, runs in plan("scratch").items()}
    assert {label: (run.model.k, run.predecessor) for label, run in models.items()} == {
        "roberta": (None, None),
        "k=4": (4, None),
        "k=8": (8, None),
    }
    models = {label: runs[0] for label, runs in plan("warm-start").items()}
    assert {run.model.n for run in models.values()} == {16} and {run.model.k for run in models.values()} == {None, 8}
    assert models["from scratch"].predecessor.model == models["from scratch"].model and models[
        "converted"
    ].predecessor.model == Model(16)


def test_what_a_record_says_of_its_plan():
    c = as_json(find("figure-3a").configuration(CPU))
    assert c["seeds"] == [1, 2, 3] and c["sizes"]["width"] == 128 and list(c["runs"]) == list(plan("figure-3a"))
    run = c["runs"]["k=16"]
    assert (run["model"]["k"], run["made"], run["updates"], run["rate"], run["from"]["made"]) == (
        16,
        "converted",
        500,
        "to zero",
        "grown",
    )
    assert run["model"]["start"] == default_start() and run["model"]["rate"] == 0.25  # 16 / n
    assert run["from"]["from"]["from"] == {"model": {"n": 16}, "made": "scratch", "updates": 2000, "rate": "constant"}


# Finetuned models


def test_table_2_has_the_models_of_the_paper():
    """Every model of one n starts from the same RoBERTa and has as many updates."""
    sizes, runs = SIZES["cpu"], pretrainings(CPU, SIZES["cpu"])
    of = {(run.model.n, run.model.k, run.model.sharing): run for run in runs.values() if run.model.k}
    assert set(of) == {
        *((128, k, sharing) for k in (64, 32) for sharing in ("headwise", "key-value", "layerwise")),
        (256, 64, "headwise"),
    }
    assert {run.updates for run in runs.values()} == {sizes.last} and all(run.decays for run in runs.values())
    trunk = runs["roberta"].predecessor
    assert [(run.model.n, run.updates) for run in trunk.history] == list(sizes.stages)
    assert [run.predecessor for (n, *_), run in of.items() if n == 128] == 6 * [trunk]
    longer = of[256, 64, "headwise"].predecessor
    assert (longer.predecessor, longer.model.n, longer.updates) == (trunk, 256, CPU.grown)
    assert len(set(runs)) == len({run.name for run in runs.values()}) == 8 and {
        run.model.start for run in of.values()
    } == {None}


def test_what_is_finetuned():
    found = members(CPU, SIZES["cpu"])
    names = [member.name for member in found]
    assert len(set(names)) == len(names) == 4 * (2 + 2 + 6) and {member.task.name for member in found} == {
        "sst-2",
        "imdb",
        "qnli",
        "qqp",
    }
    assert [name for name in names if "from-scratch" in name] == [
        f"{task}-{model}-from-scratch" for model in ("linformer", "roberta") for task in SIZES["cpu"].epochs
    ]
    assert {"sst-2-linformer", "imdb-linformer-n256-k64-headwise", "qqp-linformer-n128-k64-layerwise"} <= set(names)
    assert "120 finetunings" in find("table-2").cost("cpu")
