"""What is compared has the same data, seeds, updates and schedule, and is run once."""

import pytest

from fairseq_linformer.reproduce.scales import SCALES
from fairseq_linformer.reproduce.table_2 import members as finetuned_members
from fairseq_linformer.reproduce.training_plan import EXPERIMENTS, in_turn, measured_runs, table_2

EVERY = [(name, scale) for name in EXPERIMENTS for scale in SCALES]


@pytest.mark.parametrize("name, scale", EVERY)
def test_models_of_an_experiment_differ_in_what_it_is_about(name, scale):
    sizes = SCALES[scale]
    measured = measured_runs(name, sizes)
    assert "roberta" in measured and measured["roberta"][0].model.k is None
    for runs in measured.values():
        assert [run.seed for run in runs] == list(sizes.seeds)
    for of_seed in zip(*measured.values()):
        if name != "growing":  # whose last runs are of different length
            assert len({(run.updates, run.decays, run.model.n if name != "figure-3d" else 0) for run in of_seed}) == 1
        assert len({_updates_in_all(run) for run in of_seed}) == 1


def _updates_in_all(run):
    return run.updates + (_updates_in_all(run.start) if run.start else 0)


@pytest.mark.parametrize("scale", SCALES)
def test_runs_are_shared_by_name_and_come_after_their_start(scale):
    by_name = {}
    for name in EXPERIMENTS:
        every = in_turn(measured_runs(name, SCALES[scale]))
        for i, run in enumerate(every):
            assert run.start is None or run.start in every[:i]
            assert by_name.setdefault(run.name, run) == run  # a name is one run, in whichever experiment
        assert len(set(every)) == len(every)


def test_figure_3a_at_cpu_scale():
    measured = measured_runs("figure-3a", SCALES["cpu"])
    assert list(measured) == ["roberta", "k=4", "k=8", "k=16", "k=32", "k=64"]
    every = in_turn(measured)
    assert len(every) == 27 and [run.name for run in every[:5]] == [
        "roberta-n16-scratch/seed1", "roberta-n32-grown/seed1", "roberta-n64-grown/seed1", "roberta-n64-continued/seed1",
        "linformer-n64-k4-headwise-average-converted/seed1"]  # fmt: skip
    assert sum(run.updates for run in every) == 3 * (2000 + 2 * 400 + 6 * 500)
    grown = measured_runs("figure-3b", SCALES["cpu"])["k=32"][0].start
    assert grown.name == "roberta-n128-grown/seed1" and grown.start == every[2]


def test_shorter_models_of_figure_3d_are_trained_while_longer_ones_grow():
    measured = measured_runs("figure-3d", SCALES["cpu"])
    starts = {name: runs[0].start for name, runs in measured.items()}
    assert starts["roberta"] == starts["n=64"] and starts["roberta n=512"] == starts["n=512"] and (starts["n=64"].name, starts["n=64"].updates) == ("roberta-n64-waiting/seed1", 4 * 400)
    assert (starts["n=512"].made, starts["n=512"].updates, starts["n=1024"].made) == ("waiting", 400, "grown")
    assert measured["n=64"][0].name == "linformer-n64-k32-headwise-average-converted-as-n1024/seed1"  # that of figure-3a is another


def test_the_start_of_the_authors_learns_at_their_rate():
    runs = measured_runs("starts", SCALES["cpu"])
    assert runs["normal at the full rate"][0].name.endswith("-normal-rate1-converted/seed1") and runs["normal at the full rate"][0].model.rate == 1


def test_an_update_has_the_tokens_of_its_scale():
    for sizes in SCALES.values():
        for n in {sizes.n, sizes.figure_3a, sizes.figure_3b, *sizes.lengths}:
            assert sizes.tokens % n == 0 and n % 16 == 0
            assert (n // sizes.n).bit_count() == 1 and n % sizes.n == 0  # grown by doubling
        longer = [n for n, _ in sizes.table_2.stages]
        assert [2 * n for n in longer[:-1]] == longer[1:]
        assert {n for n, _, _ in sizes.table_2.linformers} <= {longer[-1], 2 * longer[-1]} and sizes.table_2.linformers[0] == (longer[-1], longer[-1] // 2, "headwise")


def test_table_2_has_the_models_of_the_paper():
    """At k = n / 2 all that its claims compare; each model of the same n starts from the same RoBERTa, and has as many updates."""
    sizes = SCALES["cpu"].table_2
    runs = table_2(SCALES["cpu"])
    of = {(run.model.n, run.model.k, run.model.sharing): run for run in runs.values() if run.model.k}
    assert set(of) == {*((128, k, sharing) for k in (64, 32) for sharing in ("headwise", "key-value", "layerwise")), (256, 64, "headwise")}
    assert {run.updates for run in runs.values()} == {sizes.last} and all(run.decays for run in runs.values())
    trunk = runs["roberta"].start
    assert [run.start for key, run in of.items() if key[0] == 128] == 6 * [trunk]
    assert (of[256, 64, "headwise"].start.start, of[256, 64, "headwise"].start.model.n) == (trunk, 256)
    assert len(set(runs)) == len({run.name for run in runs.values()}) == 8
    members = [member.name for member in finetuned_members(SCALES["cpu"])]
    assert len(set(members)) == len(members) == 4 * (2 + 2 + 6) and [m for m in members if "from-scratch" in m] == [
        f"{task}-{model}-from-scratch" for model in ("linformer", "roberta") for task in sizes.epochs]  # fmt: skip
    assert {"sst-2-linformer", "imdb-linformer-n256-k64-headwise", "qqp-linformer-n128-k64-layerwise"} <= set(members)
