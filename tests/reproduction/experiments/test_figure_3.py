"""Figure 3: rules on trained models, by k, by sharing and by n; and the record of a training experiment."""

import re
from pathlib import Path

import pytest

from fairseq_linformer.reproduction import scoring, training
from fairseq_linformer.reproduction.experiments import figure_3
from fairseq_linformer.reproduction.experiments.figure_3 import labels_by_k
from fairseq_linformer.reproduction.registry import claims, find
from fairseq_linformer.reproduction.runs import AUTHORS
from fairseq_linformer.reproduction.scoring import FinishedRun
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import outcome, three, trained, verdict

BY_K = {"roberta": 5.0, "k=4": 6.8, "k=8": 6.5, "k=16": 6.0, "k=32": 5.5, "k=64": 5.0}


def by_k(panel="a", seeds=3, changed=(), **fields):
    bits = {model: three(value)[:seeds] for model, value in {**BY_K, **dict(changed)}.items()}
    return trained(f"figure-3{panel}", dict(reversed(bits.items())), **fields)


@pytest.mark.parametrize("panel", "ab")
@pytest.mark.parametrize(
    "changed, fields, order, par",
    [
        ({}, {}, HOLDS, FAILS),
        ({"k=16": 5.01}, {}, FAILS, HOLDS),  # k = 32 is worse than k = 16
        ({"k=16": 5.0}, {"seeds": 2}, UNDECIDED, UNDECIDED),
        ({"k=16": 5.0}, {"level": 7.1}, UNDECIDED, UNDECIDED),  # the worst RoBERTa is 1.9 bits below
        ({"k=64": 5.6}, {}, FAILS, FAILS),  # k = n is included
        ({"k=4": 6.81}, {}, UNDECIDED, FAILS),  # the worst seed is 0.99 bits below a model without context
        ({}, {"fall": 0.0099}, HOLDS, FAILS),
        ({}, {"fall": 0.01}, UNDECIDED, UNDECIDED),  # not converged
        ({}, {"scale": "gpu"}, UNMEASURED, UNMEASURED),
        ({}, {"made_by": "script"}, UNMEASURED, UNMEASURED),
    ],
)
def test_by_k(panel, changed, fields, order, par):
    one = by_k(panel, changed=changed, **fields)
    name = f"figure-3{panel}"
    assert [outcome(name, one), outcome(f"{name}-par", one)] == [order, par]
    assert outcome(f"figure-3{'ba'['ab'.index(panel)]}", one) == UNMEASURED


def test_k_in_order_of_its_size():
    assert labels_by_k(by_k()) == ["k=4", "k=8", "k=16", "k=32", "k=64"]
    with_authors = by_k(changed={f"k={k}{AUTHORS}": 7.0 for k in (16, 4)})
    assert labels_by_k(with_authors) == labels_by_k(by_k()) and labels_by_k(with_authors, AUTHORS) == [
        f"k=4{AUTHORS}",
        f"k=16{AUTHORS}",
    ]
    found = verdict("figure-3a", by_k())
    assert len(found.checks) == 4 and any(text.startswith("k=16: perplexity") for text in found.remarks)


@pytest.mark.parametrize("bits, expected", [(0.0703, HOLDS), (0.0705, FAILS), (-1.0, HOLDS)])
def test_nearly_on_par_is_within_five_percent(bits, expected):
    """log2(1.05) is 0.07039."""
    assert figure_3.NEARLY == 1.05
    assert outcome("figure-3a-par", by_k(changed={"k=16": 5.0 + bits})) == expected
    for sharing in ("headwise", "key-value", "layerwise"):
        assert outcome("figure-3c", trained("figure-3c", sharings(**{sharing: 5.0 + bits}))) == expected


def test_par_is_of_a_quarter_of_n():
    missing = trained("figure-3a", {"roberta": three(5.0), "k=32": three(5.0)})
    found = verdict("figure-3a-par", missing)
    assert found.outcome == UNDECIDED and "k=16" in found.deciding[0]
    assert outcome("figure-3a-par", by_k(changed={"k=32": 9.0, "k=16": 5.0})) == HOLDS


def test_a_local_window_is_reported_and_decides_nothing():
    found = verdict("figure-3a-par", by_k(changed={"k=16": 5.0, "k=16, W=16": 6.0}))
    assert found.outcome == HOLDS
    assert any(remark.startswith("k=16, W=16 / roberta perplexity: 2 ") for remark in found.remarks)
    assert len(verdict("figure-3a", by_k(changed={"k=16, W=16": 9.0})).checks) == 4


@pytest.mark.parametrize("panel", "ab")
def test_the_authors_start_is_reported(panel):
    """Its verdict is a remark: ours holds and theirs does not, or the other way round."""
    theirs = {f"k={k}{AUTHORS}": bits for k, bits in ((4, 6.5), (8, 6.0), (16, 6.2), (32, 5.5))}
    found = verdict(f"figure-3{panel}", by_k(panel, changed=theirs))
    (remark,) = [text for text in found.remarks if text.startswith("with the authors' initialization")]
    assert found.outcome == HOLDS and FAILS in remark and f"k=16{AUTHORS} / k=8{AUTHORS}" in remark
    found = verdict(f"figure-3{panel}-par", by_k(panel, changed={**theirs, f"k=16{AUTHORS}": 5.0}))
    (remark,) = [text for text in found.remarks if text.startswith("with the authors' initialization")]
    assert found.outcome == FAILS and HOLDS in remark and f"k=16{AUTHORS} / roberta" in remark
    assert not any("with the authors" in text for text in verdict(f"figure-3{panel}", by_k(panel)).numbers)


def sharings(**changed):
    bits = {"roberta": 4.8, "none": 5.0, "headwise": 5.0, "key-value": 5.0, "layerwise": 5.0, **changed}
    return {model: three(value) for model, value in bits.items()}


def test_sharing_with_other_starts_is_reported():
    theirs = {f"{sharing}{AUTHORS}": 6.0 for sharing in figure_3.SHARINGS}
    own = {f"{sharing}{figure_3.OWN_START}": 4.5 for sharing in ("none", "headwise", "key-value")}
    found = verdict("figure-3c", trained("figure-3c", sharings(**theirs, **own)))
    assert found.outcome == HOLDS and len(found.checks) == 3
    ratios = [text for text in found.remarks if "default start /" in text]
    assert len(ratios) == 3 and all(f"{2**-0.5:.3g}" in text for text in ratios)
    assert (
        sum(text.startswith(f"with the authors' initialization and learning rate: {HOLDS}") for text in found.remarks)
        == 1
    )


@pytest.mark.parametrize(
    "changed, fall, expected",
    [
        ({"none": 6.8, "headwise": 6.8, "key-value": 6.8, "layerwise": 6.8}, 0.0, HOLDS),
        ({"none": 6.81, "headwise": 6.8, "key-value": 6.8, "layerwise": 6.8}, 0.0, UNDECIDED),
        ({}, 0.0099, HOLDS),
        ({}, 0.01, UNDECIDED),
    ],
)
def test_sharing_needs_models_that_have_learned_and_converged(changed, fall, expected):
    assert outcome("figure-3c", trained("figure-3c", sharings(**changed), fall=fall)) == expected


LENGTHS = (64, 128, 1024)


def lengths(linformers, robertas=(4.8, 4.8, 4.8), **fields):
    """The longest first."""
    models = {}
    for n, linformer, roberta in [*zip(LENGTHS, linformers, robertas)][::-1]:
        models["roberta" + f" n={n}" * (n > 64)] = three(roberta)
        models[f"n={n}"] = three(linformer)
    runs = {model: {"model": {"rate": 0.25}} for model in models if model.startswith("n=")}
    return trained("figure-3d", models, **{"configuration": {"n": 64, "runs": runs}, **fields})


@pytest.mark.parametrize(
    "linformers, robertas, levels, expected",
    [
        ((5.0, 5.1, 5.0), (4.8,) * 3, (), HOLDS),
        ((5.0, 5.1375, 4.8625), (4.8,) * 3, (), HOLDS),  # log2(1.1) is 0.13750
        ((5.0, 5.1, 5.1376), (4.8,) * 3, (), FAILS),
        ((5.0, 4.8624, 5.0), (4.8,) * 3, (), FAILS),  # lower is not the same either
        ((5.0, 5.0, 5.0), (4.8, 4.8, 6.0), (), UNDECIDED),  # a RoBERTa that did not learn
        ((5.0, 5.0, 5.0), (4.8, 4.8, 6.0), [(1024, 8.3)], HOLDS),  # but did, by the level of its n
        ((5.0, 5.0, 5.0), (4.8, 4.8, 4.8), [(1024, 6.9)], UNDECIDED),
    ],
)
def test_by_length(linformers, robertas, levels, expected):
    assert figure_3.SAME == 1.1
    assert outcome("figure-3d", lengths(linformers, robertas, levels=levels)) == expected


@pytest.mark.parametrize(
    "linformers, fields, expected",
    [
        ((6.8, 6.8, 6.8), {}, HOLDS),
        ((6.8, 6.81, 6.8), {}, UNDECIDED),  # 0.99 bits below a model without context
        ((6.8, 6.8, 6.81), {"levels": [(1024, 8.1)]}, HOLDS),  # by the level of its n
        ((5.0, 5.0, 5.0), {"fall": 0.0099}, HOLDS),
        ((5.0, 5.0, 5.0), {"fall": 0.01}, UNDECIDED),
    ],
)
def test_by_length_every_model_has_learned_and_converged(linformers, fields, expected):
    assert outcome("figure-3d", lengths(linformers, **fields)) == expected


@pytest.mark.parametrize(
    "rates, confounded", [((0.25, 0.25, 0.25), False), ((0.25, 0.125, 0.25), True), ((None,) * 3, True)]
)
def test_by_length_a_learning_rate_that_falls_with_n_is_reported(rates, confounded):
    runs = {f"n={n}": {"model": {"rate": rate}} for n, rate in zip(LENGTHS, rates)}
    found = verdict("figure-3d", lengths((5.0, 5.0, 5.0), configuration={"n": 64, "runs": runs}))
    assert found.outcome == HOLDS and any("learning rate" in text for text in found.remarks) == confounded


def test_by_length_the_authors_start_is_reported():
    one = lengths((5.0, 5.0, 5.0))
    theirs = trained("figure-3d", {f"n={n}{AUTHORS}": three(bits) for n, bits in zip(LENGTHS, (5.0, 5.5, 5.0))})
    both = one.copy_with(
        measurements=[*one.measurements, *(m for m in theirs.measurements if m.model)],
        curves=[*one.curves, *theirs.curves],
    )
    found = verdict("figure-3d", both)
    (remark,) = [text for text in found.remarks if text.startswith("with the authors' initialization")]
    assert found.outcome == HOLDS and FAILS in remark and f"n=128{AUTHORS} / n=64{AUTHORS}" in remark


def test_by_length_each_against_the_shortest():
    found = verdict("figure-3d", lengths((5.0, 5.13, 5.26)))
    assert (
        found.outcome == FAILS
        and len(found.checks) == 2
        and "n=1024" in found.deciding[0]
        and "n=64" in found.deciding[0]
    )
    over = [text for text in found.remarks if "/ roberta n=1024 " in text]
    assert len(over) == 1 and f"{2**0.46:.3g}" in over[0] and len(found.remarks) == 1 + 3 + 6


def test_by_length_a_roberta_of_each_n_is_needed():
    one = lengths((5.0, 5.0, 5.0))
    without = one.copy_with(measurements=[m for m in one.measurements if m.model != "roberta n=128"])
    found = verdict("figure-3d", without)
    assert found.outcome == UNDECIDED and any(text.endswith("roberta n=128") for text in found.deciding)


@pytest.mark.parametrize(
    "name, experiment",
    [
        ("figure-3a", "figure-3a"),
        ("figure-3b-par", "figure-3b"),
        ("figure-3c", "figure-3c"),
        ("figure-3d", "figure-3d"),
        ("scratch", "scratch"),
        ("warm-start", "warm-start"),
        ("projections", "projections"),
        ("starts", "starts"),
        ("growing", "growing"),
    ],
)
def test_claims_of_training_are_of_their_experiment(name, experiment):
    assert name in [claim.identifier for claim in find(experiment).claims]
    assert outcome(name) == UNMEASURED
    assert verdict(name, trained(experiment, {"roberta": three(5.0)})).records == [f"{experiment}-cpu"]
    claim = claims()[name]
    at_equal_updates = "equally many updates" in claim.rule
    assert ("converged" in claim.rule.replace("need not have converged", "")) != at_equal_updates
    assert claim.statement.startswith("At equal updates") == at_equal_updates


def test_every_claim_is_complete():
    for identifier, claim in claims().items():
        assert claim.identifier == identifier and claim.where and claim.statement.endswith(".")
        assert claim.rule and "{" not in claim.rule
        assert not re.search(r"n = \d", claim.statement), "it is tested at other n; claim.where has the paper's"
        for scale in ("smoke", "cpu", "gpu", "paper"):
            assert claim.evaluate([], scale).outcome == UNMEASURED


# The record of trained models


@pytest.fixture
def scored(monkeypatch):
    """``TrainingExperiment.record`` of runs that are scored by their name: ``roberta-2`` has 2 bits."""

    def perplexity(run, text, device):
        bits = float(run.folder.name.split("-")[1])
        return {"bits": bits, "perplexity": 2**bits}

    def provenance(folders):
        return {
            "commit": "; ".join(sorted({each.parent.name for each in folders})),
            "hardware": {"cores": 1},
            "versions": {"python": "3"},
            "date": "2026-01-01",
        }

    monkeypatch.setattr(scoring, "measure_perplexity", perplexity)
    monkeypatch.setattr(scoring, "provenance", provenance)
    monkeypatch.setattr(scoring, "validation_curve", lambda folder, updates: [(updates, 1.23456)])
    monkeypatch.setattr(
        training.context_free, "measure", lambda folder, n: training.context_free.ContextFree(9.0, n / 8)
    )
    monkeypatch.setattr(training, "find_shards", lambda text: [Path("shard0")])
    monkeypatch.setattr(training, "describe_text", lambda text: f"of {text}")
    monkeypatch.setattr(training, "training_seconds", lambda last, start: 1.5)
    models = {"roberta": [("a", 1), ("b", 2), ("b", 10)], "k=4": [("a", 3), ("a", 7), ("a", 4)]}
    runs = {
        name: [FinishedRun(Path(commit, f"{name}-{bits}"), 64 if name == "roberta" else 32, 500) for commit, bits in of]
        for name, of in models.items()
    }
    plan = {"runs": {"roberta": {"model": {"n": 64}}, "k=4": {"model": {"n": 32, "k": 4, "sharing": "headwise"}}}}
    every = [run for of_seed in runs.values() for run in of_seed]
    return find("figure-3a").record("cpu", runs, every, "a text", "cpu", plan, "it", {"bits": 0.01})


def test_a_model_has_the_median_of_its_seeds(scored):
    for model, bits, interval in (("roberta", 2.0, (1.0, 10.0)), ("k=4", 4.0, (3.0, 7.0))):
        m, p = (scored.find(metric, model=model, seed=None) for metric in ("bits", "perplexity"))
        assert (m.value, m.interval, m.repetitions) == (bits, interval, 3)
        assert (p.value, p.interval, p.repetitions) == (2**bits, tuple(2**end for end in interval), 3)
    assert [m.value for m in scored.select("bits", model="k=4") if m.seed] == [3.0, 7.0, 4.0]
    assert [m.seed for m in scored.select("bits", model="k=4")] == [None, 1, 2, 3]


def test_where_each_number_was_taken(scored):
    linformer, roberta = (scored.find("perplexity", model=model) for model in ("k=4", "roberta"))
    assert (linformer.n, linformer.k, linformer.sharing) == (32, 4, "headwise")
    assert (roberta.n, roberta.k, roberta.sharing) == (64, None, None)
    assert {m.n: m.value for m in scored.select("context_free_bits")} == {32: 4.0, 64: 8.0}
    assert [(c.model, c.seed, c.points) for c in scored.curves[:2]] == [
        ("roberta", seed, [(500, 1.2346)]) for seed in (1, 2)
    ]


def test_what_a_record_of_training_says(scored):
    c = scored.configuration
    assert (scored.identifier, scored.experiment, scored.made_by, scored.scale) == (
        "figure-3a-cpu-plan2",
        "figure-3a",
        "reproduce",
        "cpu",
    )
    assert (
        c["n"] == 64
        and c["commits"] == {"roberta": "a; b", "k=4": "a"}
        and c["masks"] == scoring.MASKS
        and scored.commit == "a; b"
    )
    assert (scored.data, scored.command, scored.seconds) == ("of a text", "it", 9.0)
    assert scored.tolerance == {"bits": 0.01}
    assert all(claim.statement in scored.claim for claim in find("figure-3a").claims)
    assert scored.paper.where == claims()["figure-3a"].where
