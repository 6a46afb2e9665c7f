"""Time and memory against others: what is promised, and the numbers behind it."""

import pytest
import torch

from fairseq_linformer.benchmark import models
from fairseq_linformer.benchmark.flops import utilization
from fairseq_linformer.benchmark.timing import num_threads
from fairseq_linformer.reproduction.cells import CellExperiment
from fairseq_linformer.reproduction.experiments import speed
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import claims, find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNMEASURED

from ..evidence import cell, number, outcome, put_cells, record, verdict

BOUNDS = [
    # claim, kind of cell, metric, where, at least, at most
    ("speed-training", "training", "time_ratio", ("authors", 512, "pretraining"), 1.12, None),
    ("speed-training", "training", "time_ratio", ("authors", 32, "finetuning"), 2.4, None),
    ("speed-training", "training", "time_ratio", ("roberta", 32, "finetuning"), 1 / 1.1, None),
    ("speed-training", "training", "time_ratio", ("authors", 128, "finetuning"), 1.2, None),
    ("speed-training", "training", "bytes_share", ("authors", 4096, "pretraining"), None, 0.75),
    ("speed-finetuning", "finetuning", "speed_ratio", ("authors", 512, None), 2, None),
    ("speed-finetuning", "finetuning", "speed_ratio", ("roberta", 512, None), 0.85, None),
    ("speed-inference", "whole", "time_ratio", ("roberta", 16384, None), 5.3, None),
    ("speed-inference", "pertoken", "time_per_token_ratio", (None, 16384, None), None, 1.15),
]


def measured(bound, value, low=None, high=None, name="l12", made_by="benchmark", scale="cpu", **configuration):
    _, kind, metric, (baseline, n, phase), *_ = bound
    interval = None if low is None else (low, high)
    m = number(
        metric,
        value,
        interval,
        model="ours",
        baseline=baseline,
        n=n,
        phase=phase,
        baseline_n=512 if kind == "pertoken" else None,
    )
    configuration = {"layers": 12, **configuration}
    experiment = "figure-2" if kind == "pertoken" else "speed"
    return record(
        [m], f"benchmark-{kind}-cpu-fp32-{name}", configuration, experiment=experiment, made_by=made_by, scale=scale
    )


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: f"{bound[0]}-{bound[3][0]}-{bound[3][1]}")
def test_a_bound(bound):
    claim, *_, least, most = bound
    limit, worse = (least, 0.999) if most is None else (most, 1.001)
    found = verdict(claim, measured(bound, limit, 0.1, 10.0))
    assert found.outcome == HOLDS and len(found.checks) == 1  # by the median, whatever the rounds
    assert outcome(claim, measured(bound, limit * worse, 0.1, 10.0)) == FAILS
    assert outcome(claim, measured(bound, limit / worse)) == HOLDS
    others = [name for name in claims() if name.startswith("speed-") and name != claim]
    assert [outcome(name, measured(bound, limit)) for name in others] == [UNMEASURED] * len(others)


def test_there_are_no_other_bounds():
    bounds = [
        bound for bounds in (speed.TRAINING_BOUNDS, speed.PROCESS_BOUNDS, speed.INFERENCE_BOUNDS) for bound in bounds
    ]
    assert len(bounds) == len(BOUNDS) and len([name for name in claims() if name.startswith("speed")]) == 3


def test_every_bound_that_was_measured_decides():
    good, bad = measured(BOUNDS[0], 9.0), measured(BOUNDS[4], 9.0, name="l12-more")
    found = verdict("speed-training", good, bad)
    assert found.outcome == FAILS and found.records == [good.identifier, bad.identifier] and len(found.checks) == 2
    both = good.copy_with(measurements=[*good.measurements, *measured(BOUNDS[1], 9.0).measurements])
    assert verdict("speed-training", both).records == [good.identifier] and outcome("speed-training", both) == HOLDS


def test_rounds_are_reported_that_say_otherwise():
    def text(*rounds):
        return verdict("speed-training", measured(BOUNDS[0], *rounds)).checks[0].text.split(": ")[-1]

    plain = text(1.5, 1.2, 1.6)
    assert "1.5 [1.2, 1.6]" in plain and "≥ 1.12" in plain and "round" not in plain
    assert "round" in text(1.5, 1.1, 1.6) and "round" in text(1.0, 0.9, 1.2) and "round" not in text(1.0, 0.9, 1.1)
    assert "round" not in text(1.5, 1.12, 1.6) and "round" in text(1.0, 0.9, 1.12)  # the limit itself is kept
    assert "≤ 0.75" in verdict("speed-training", measured(BOUNDS[4], 0.5)).checks[0].text


def test_the_record_of_most_layers_decides():
    bound = BOUNDS[0]
    deep, shallow = measured(bound, 9.0), measured(bound, 0.5, name="l2", layers=2)
    for found in ([deep, shallow], [shallow, deep]):
        assert verdict("speed-training", *found).records == [deep.identifier]


@pytest.mark.parametrize("other", [{"options": ["--compile"]}, {"embed_dim": 64}, {"k": 128}])
def test_options_and_other_sizes_are_not_what_is_promised(other):
    assert outcome("speed-training", measured(BOUNDS[0], 9.0, **other)) == UNMEASURED
    assert outcome("speed-training", measured(BOUNDS[0], 1.0), measured(BOUNDS[0], 9.0, name="l12-x", **other)) == FAILS


def test_which_records_count():
    bound = BOUNDS[0]
    assert (
        outcome("speed-training", measured(bound, 9.0, made_by="script"))
        == UNMEASURED
        == outcome("speed-training", measured(bound, 9.0), scale="gpu")
    )
    ours = measured(bound, 9.0, name="l2-cpu", made_by="reproduce", layers=2)
    assert verdict("speed-training", measured(bound, 0.5), ours).records == [ours.identifier]
    another_kind = measured(bound, 9.0).copy_with(identifier="benchmark-process-cpu-fp32-l12")
    assert outcome("speed-training", another_kind) == UNMEASURED


# Measurements


def records_of(kind, folder, *cells):
    found = next(each for each in speed.KINDS if each.name == kind)
    (record,) = found.records(put_cells(folder, *cells), "speed")
    assert {m.n for m in record.measurements} == {32}
    return record


def step(**changed):
    measured = {
        "seconds": {"ours": [1.0, 2.0, 4.0], "roberta": [3.0, 4.0, 4.0]},
        "tokens": 64,
        "operations": {"ours": 1e11, "roberta": 2e11},
        "bytes": {"ours": 50, "roberta": 200},
        **changed.pop("measured", {}),
    }
    return cell("training", measured, **{"models": ["ours", "roberta"], "classify": False, **changed})


def test_a_training_step(tmp_path):
    found = records_of("training", tmp_path, step())
    at = {"phase": "pretraining", "n": 32}
    ratio = found.find("time_ratio", model="ours", baseline="roberta", **at)
    assert (ratio.value, ratio.interval) == (2, (1, 3)) and len(found.select("time_ratio")) == 1
    tokens = found.find("tokens_per_second", model="ours", **at)
    assert (tokens.value, tokens.interval, tokens.repetitions) == (32, (16, 64), 3)
    used = found.find("utilization", model="roberta", **at)
    assert used.value == pytest.approx(utilization(2e11, 4.0, 1e12)) == pytest.approx(0.05)
    share = found.find("bytes_share", model="ours", baseline="roberta", **at)
    assert share.value == 0.25 and found.find("bytes", model="roberta", **at).value == 200


def test_finetuning_steps_are_named(tmp_path):
    assert {m.phase for m in records_of("training", tmp_path, step(classify=True)).measurements} == {"finetuning"}


def test_the_modules_alone_are_ours_too(tmp_path):
    measured = {
        "seconds": {"ours-modules": [1.0], "roberta": [2.0]},
        "operations": {"ours-modules": 1e9, "roberta": 1e9},
        "bytes": {},
    }
    found = records_of("training", tmp_path, step(measured=measured, models=["ours-modules", "roberta"]))
    assert found.find("time_ratio", model="ours-modules", baseline="roberta").value == 2


def test_others_are_kept_where_ours_had_no_room(tmp_path):
    measured = {"seconds": {"roberta": [1.0]}, "bytes": {"roberta": 5}, "failed": {"ours": "no room"}}
    found = records_of("training", tmp_path, step(measured=measured))
    assert [m.metric for m in found.measurements] == ["bytes", "tokens_per_second", "utilization"]
    assert [*found.configuration["failed"].values()] == [{"ours": "no room"}]


def test_whole_models(tmp_path):
    found = records_of(
        "whole", tmp_path, cell("whole", {"seconds": {"ours": [1.0, 2.0, 4.0], "roberta": [3.0, 4.0, 4.0]}})
    )
    assert (
        found.find("time_ratio", model="ours", baseline="roberta", n=32).value == 2
        and len(found.select("time_ratio")) == 1
    )
    assert found.find("seconds", model="ours", n=32).interval == (1, 4)


@pytest.mark.parametrize("kind, unit", [("process", "words"), ("finetuning", "tokens")])
def test_whole_processes(kind, unit, tmp_path):
    measured = {
        "words": {"ours": [40.0, 60.0, 20.0], "roberta": [20.0, 20.0, 20.0]},
        "bytes": {"ours": [2**20, 2**21, 2**22], "roberta": [2**20] * 3},
    }
    found = records_of(kind, tmp_path, cell(kind, measured))
    ratio = found.find("speed_ratio", model="ours", baseline="roberta", n=32)
    assert (ratio.value, ratio.interval) == (2, (1, 3)) and len(found.select("speed_ratio")) == 1
    assert found.find(f"{unit}_per_second", model="ours").value == 40
    memory = found.find("memory", model="ours")
    assert (memory.value, memory.interval, memory.unit) == (2, (1, 4), "MiB")
    gpu = cell(kind, measured, device="cuda")
    gpu["name"] = f"{kind}-cuda-fp32-l2-n32"
    (tmp_path / "gpu").mkdir()
    assert records_of(kind, tmp_path / "gpu", gpu).find("host_memory", model="ours").value == 2


def test_shares_of_an_update(tmp_path):
    measured = {"seconds": {"ours": {"forward": [1.0, 3.0], "whole": [2.0, 10.0]}}}
    found = records_of("shares", tmp_path, cell("shares", measured))
    share = found.find("share", part="forward", model="ours", n=32)
    assert (share.value, share.interval, share.repetitions) == (0.33333, (0.3, 0.5), 2)  # 4 s of 12 s
    assert found.find("seconds", part="whole", model="ours").value == 6 and len(found.measurements) == 2


# Cells


def cells_at(scale):
    return find("speed").cells_at[scale]()


@pytest.mark.parametrize("scale, device, dtype, tokens", [("cpu", "cpu", "fp32", 4096), ("gpu", "cuda", "bf16", 32768)])
def test_cells_of_base_size(scale, device, dtype, tokens, monkeypatch):
    monkeypatch.setattr(models, "missing_requirement", lambda name: None)  # whatever is installed here
    monkeypatch.setattr(speed, "missing_requirement", lambda name: None if name == "linformer" else "not installed")
    cells = cells_at(scale)
    assert {(each.device, each.dtype, each.layers, each.embed_dim, each.heads, each.k) for each in cells} == {
        (device, dtype, 12, 768, 12, 256)
    }
    of_kind = {}
    for each in cells:
        of_kind.setdefault(each.name.split("-")[0], []).append(each)
    assert {kind: len(of) for kind, of in of_kind.items()} == {"training": 28, "process": 1, "shares": 1, "whole": 3}
    steps = [
        (each.classify, each.n, each.batch)
        for each in of_kind["training"]
        if not each.memory and "roberta" in each.models
    ]
    pretraining, finetuning = {"cpu": ((4, 2, 1, 1), (32, 32, 16)), "gpu": ((64, 32, 16, 8), (32, 32, 32))}[scale]
    assert steps == [
        *zip([False] * 4, (512, 1024, 2048, 4096), pretraining),
        *zip([True] * 3, (32, 64, 128), finetuning),
    ]
    assert sum(each.models == ("ours", "linformer") for each in of_kind["training"]) == 14
    assert [(each.n, each.tokens, each.rounds) for each in of_kind["whole"]] == [
        (n, tokens, 2) for n in (512, 4096, 16384)
    ]
    assert [(each.n, each.rounds) for each in (*of_kind["process"], *of_kind["shares"])] == [(512, 1)] * 2
    monkeypatch.setattr(speed, "missing_requirement", lambda name: "not installed")
    assert len(cells_at(scale)) == 19


def test_cells_of_the_smoke_scale():
    assert [(each.n, each.batch, each.classify, each.memory) for each in cells_at("smoke")] == [
        (n, 64 // n, n == 16, memory) for memory in (False, True) for n in (32, 16)
    ]
    assert {(each.layers, each.embed_dim, each.k, each.rounds, each.warm_up) for each in cells_at("smoke")} == {
        (1, 64, 16, 1, 0)
    }
    assert {each.models for each in cells_at("smoke")} == {("ours-modules", "transformer-sdpa")}


@pytest.mark.parametrize("scale, threads", [("smoke", 1), ("cpu", 2)])
def test_threads(scale, threads, monkeypatch):
    monkeypatch.setattr(CellExperiment, "measure", lambda self, *arguments: (arguments, torch.get_num_threads()))
    with num_threads(1):
        assert find("speed").measure(scale, Inputs(), "it") == ((scale, Inputs(), "it"), threads)
        assert torch.get_num_threads() == 1


def test_table():
    one = record(
        [
            number(
                "time_ratio",
                2.0,
                (1.0, 3.0),
                model="ours",
                baseline="roberta",
                n=4096,
                phase="pretraining",
                unit="ratio of times",
            ),
            number("share", 0.5, model="ours", part="forward", n=32, unit="share of an update"),
        ],
        configuration={"layers": 2, "threads": 2},
    )
    (table,) = find("speed").tables([one])
    assert [list(row) for row in table.rows] == [
        ["pretraining, n = 4,096", "ours, against roberta: time ratio", "2", "1 to 3", "ratio of times"],
        ["n = 32", "ours: forward", "0.5", "", "share of an update"],
    ]
    assert "2 layers, 2 threads" in table.caption
