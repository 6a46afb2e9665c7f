"""The paper's runs on a cluster: submitted, and once they are trained read back into the ledger."""
# ruff: noqa: F811 (fixtures are imported)

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from fairseq_linformer.cli import main
from fairseq_linformer.launching.training_job import run_name
from fairseq_linformer.reproduction import scoring
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.paper_scale import array_members, arrays
from fairseq_linformer.reproduction.paper_table_2 import PaperTable2
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.runs import CONFIG
from fairseq_linformer.reproduction.text import describe_text

from ..launching.jobs import ROOT
from .cluster import cluster, composed, paper  # noqa: F401
from .trainer import (  # noqa: F401
    DATE,
    HARDWARE,
    VERSIONS,
    compose_quickly,
    copied_text,
    finish,
    finished_runs,
    scores,
    text,
    trainer,
    two_shards,
)

SHARINGS = ("none", "headwise", "key-value", "layerwise")
AVERAGE = "++model.projection_init=average"
"""The start of layerwise sharing, which all have in the comparison."""
MODELS = {
    "roberta": ["+run=n512-roberta"],
    **{sharing: [f"+run=n512-k256-{sharing}", AVERAGE] for sharing in SHARINGS[:3]},
    "layerwise": ["+run=n512-k256-layerwise"],
    **{f"{sharing}, authors' start": [f"+run=n512-k256-{sharing}", "+start=authors"] for sharing in SHARINGS},
    **{f"{sharing}, default start": [f"+run=n512-k256-{sharing}"] for sharing in SHARINGS[:3]},
}
"""Of figure-3c, with their overrides."""
RUNS = {
    (model, seed): [*overrides, *[f"common.seed={seed}"] * (seed > 1)]
    for seed in (1, 2, 3)
    for model, overrides in MODELS.items()
}
"""Every model with three seeds, the first seed of all first."""


def folder_name(model, seed=1):
    """As ``submit`` names it, from the overrides."""
    parts = [word.lstrip("+").partition("=") for word in RUNS[model, seed]]
    return ",".join(
        value if key in ("run", "start") else f"{key.rpartition('.')[2]}={value}" for key, _, value in parts
    )


@pytest.fixture
def finished(finished_runs, text, tmp_path):
    """Leaves the folder of a finished run of figure-3c."""
    last = finished_runs[0] / "smoke/linformer-n16-k8-headwise-default-scratch/seed1/checkpoints/checkpoint_last.pt"

    def finished(model, seed=1, commit="abc", data=text / "shard0"):
        folder = tmp_path / "runs" / folder_name(model, seed)
        overrides = (*RUNS[model, seed], "task.data=any")
        cfg = OmegaConf.to_container(composed(str(CONFIG), overrides), enum_to_str=True)
        cfg = {section: cfg[section] for section in ("common", "task", "model", "optimization")}
        cfg["distributed_training"] = {"distributed_world_size": 64}
        cfg["task"]["data"], cfg["optimization"]["max_update"] = str(data), 2
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(cfg, default=str))
        shutil.copy(last, folder / "checkpoints")
        attempt = {"commit": commit, "hardware": HARDWARE, "versions": VERSIONS, "date": DATE}
        (folder / "attempts.jsonl").write_text(json.dumps(attempt) + "\n")
        lines = [{"epoch": 1, "valid_loss": f"{9 - at}", "valid_num_updates": f"{at}"} for at in (1, 2)]
        (folder / "logs/7").mkdir(parents=True)
        (folder / "logs/7/rank-0.txt").write_text(
            "".join(f"2026-01-01 | INFO | valid | {json.dumps(line)}\n" for line in lines)
        )
        (folder / "done").touch()
        return folder

    return finished


def edit(folder, section, key, value):
    cfg = yaml.safe_load((folder / "config.yaml").read_text())
    cfg[section][key] = value
    (folder / "config.yaml").write_text(json.dumps(cfg))


# Submission


def test_a_figure_is_submitted(paper, text, tmp_path, monkeypatch):
    """A dry run writes nothing. Variables for other jobs have no effect."""
    monkeypatch.setenv("NAME", "a-host")
    monkeypatch.setenv("CONFIG", "mine.yaml")
    assert "Submitted" not in paper("figure-3c", "--data", text, "--dry-run") and not (tmp_path / "runs").exists()
    said = paper("figure-3c", "--data", text)
    assert "Submitted batch job 7" in said
    (listed,) = (tmp_path / "runs/arrays").glob("figure-3c-*.txt")
    assert listed.read_text().splitlines() == [shlex.join(overrides) for overrides in RUNS.values()]
    words = (tmp_path / "submitted").read_text().split()
    assert (
        f"task.data={text / 'shard0'}" in words
        and "--array=0-35" in words
        and "--nodes=8" in words
        and "--ntasks-per-node=8" in words
    )
    assert not [*(tmp_path / "ledger").iterdir()]


@pytest.mark.slow
def test_a_figure_is_read_back_once_all_is_trained(finished, tmp_path):
    figure = find("figure-3c").paper_scale
    for model, seed in RUNS:
        assert not figure.is_trained(tmp_path / "runs", None, "cpu")
        finished(model, seed)
    assert figure.is_trained(tmp_path / "runs", None, "cpu")


def test_a_rejected_submission_leaves_nothing(paper, text, tmp_path):
    (tmp_path / "bin/sbatch").write_text("#!/bin/sh\necho no such partition >&2\nexit 1\n")
    assert "no such partition" in paper("figure-3c", "--data", text) and not (tmp_path / "runs/paper").exists()


def test_arrays():
    names = [f"figure-3{letter}" for letter in "abcd"]
    assert [*arrays()] == [*names, "table-2", "pretraining"]
    assert [each.name for each in arrays()["pretraining"]] == [*names, "table-2"] and arrays()["table-2"] == [
        find("table-2")
    ]


SEEDS = ([], ["common.seed=2"], ["common.seed=3"])


def members(name, models):
    assert array_members(name, "runs", None, "cuda") == [[*model, *seed] for seed in SEEDS for model in models]
    assert [[*run[0]] for run in find(name).paper_scale.runs.values()] == models


@pytest.mark.parametrize("name, n, ks", [("figure-3a", 512, (64, 128, 256)), ("figure-3b", 1024, (128, 256, 512))])
def test_the_arrays_by_k(name, n, ks):
    runs = [[f"+run=n{n}-k{k}-headwise"] for k in ks]
    members(name, [[f"+run=n{n}-roberta"], *runs, *([*run, "+start=authors"] for run in runs)])
    labels = [f"k={k}" for k in ks]
    assert [*find(name).paper_scale.runs] == ["roberta", *labels, *(f"{label}, authors' start" for label in labels)]


def test_the_array_by_sharing():
    """All with the same start, and with the authors'; and with their own default."""
    members("figure-3c", [*MODELS.values()])
    assert [*find("figure-3c").paper_scale.runs] == [*MODELS]


def test_the_array_by_length():
    """A RoBERTa of each n, and one learning rate of E and F: that of the longest n by default."""
    runs = {n: [f"+run=n{n}-k256-headwise"] for n in (512, 1024, 2048, 4096)}
    rate = ["++model.projection_lr_scale=0.00390625"]
    robertas = [[f"+run=n{n}-roberta"] for n in runs]
    ours = [[*run, *(rate if n < 4096 else [])] for n, run in runs.items()]
    members("figure-3d", [*robertas, *ours, *([*run, "+start=authors"] for run in runs.values())])
    labels = [f"n={n}" for n in runs]
    assert [*find("figure-3d").paper_scale.runs] == [
        *("roberta", "roberta n=1024", "roberta n=2048", "roberta n=4096"),
        *labels,
        *(f"{label}, authors' start" for label in labels),
    ]


def test_the_array_of_all_pretrainings():
    """Each once. Every model of every figure has three seeds, Table 2's have one."""
    members = [tuple(words) for words in array_members("pretraining", "runs", None, "cuda")]
    needed = {
        run
        for name in ("figure-3a", "figure-3b", "figure-3c", "figure-3d")
        for seeds in find(name).paper_scale.runs.values()
        for run in seeds
    }
    assert len(members) == len({*members}) and {*members} == needed | {(f"+run={run}",) for run in PaperTable2.rows}
    for words in members:
        for key, value in (word.lstrip("+").split("=") for word in words if word.startswith(("+run", "+start"))):
            assert (Path(ROOT) / f"configs/pretrain/{key}/{value}.yaml").is_file()
    names = {run_name(CONFIG, words) for words in members}
    assert len(names) == len(members)  # of the run folders


@pytest.mark.parametrize(
    "name, tasks, problem",
    [
        ("figure-9", None, "--array.*figure-9.*figure-3a.*pretraining"),
        ("table-2", None, "--tasks"),
        ("figure-3a", "there", "--tasks.*there"),
        ("pretraining", "there", "--tasks.*there"),
    ],
)
def test_wrong_arrays(tmp_path, name, tasks, problem):
    with pytest.raises(ValueError, match=problem):
        array_members(name, tmp_path, tasks, "cpu")


@pytest.mark.parametrize(
    "words, problem", [(["--array", "figure-9"], "--array.*figure-9"), (["--tasks", "there"], "--tasks")]
)
def test_submit(words, problem, capsys):
    with pytest.raises(SystemExit, match=problem):
        main(["submit", *words])


def test_submit_an_array(text, tmp_path):
    words = ["submit", "--array", "figure-3c", "--runs", str(tmp_path / "runs"), f"task.data={text / 'shard0'}"]
    main([*words, "--dry-run"])
    assert not (tmp_path / "runs").exists()
    main([*words, "--partition=gpu"])
    assert "--partition=gpu" in (tmp_path / "submitted").read_text()


# Reading back


@pytest.fixture
def trained(finished):
    """The run folders of the first seed, by model."""
    commits = {model: f"of {model}" for model in SHARINGS}
    folders = {(model, seed): finished(model, seed, commits.get(model, "abc")) for model, seed in RUNS}
    return {model: folders[model, 1] for model in MODELS}


@pytest.mark.slow
def test_record(paper, trained, text, scores, tmp_path):
    scores.bits = {"key-value": 2.0}
    assert "figure-3c: not enough evidence at scale paper" in paper("figure-3c", "--data", text)
    record = read(tmp_path / "ledger/figure-3c-paper-plan2.json")
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "figure-3c-paper-plan2",
        "figure-3c",
        "reproduce",
        "paper",
    )
    assert record.commit == "abc; of none; of headwise; of key-value; of layerwise"
    assert (record.hardware, record.versions, record.date) == (HARDWARE, VERSIONS, DATE)
    assert (
        record.data == describe_text(text)
        and record.command == "fairseq-linformer reproduce figure-3c --scale paper --data text"
    )
    assert record.seconds == 360.0 and record.tolerance is None
    runs = record.configuration["runs"]
    assert runs["layerwise, authors' start"] == {
        "model": {
            "n": 512,
            "k": 256,
            "sharing": "layerwise",
            "projection": "linear",
            "start": "normal",
            "rate": 1.0,
            "local_window": 0,
            "windows": None,
            "_name": "linformer_roberta_base",
        },
        "updates": 2,
        "lr": [0.0005],
        "made": "scratch",
    }
    assert runs["roberta"]["model"] == {"n": 512, "_name": "roberta_base"}
    assert {runs[sharing]["model"]["start"] for sharing in SHARINGS} == {"average"}
    assert {runs[f"{sharing}, default start"]["model"]["start"] for sharing in SHARINGS[:3]} == {"staggered"}
    assert (
        [*runs] == [*MODELS]
        and record.configuration["n"] == 512
        and record.configuration["seeds"] == [1, 2, 3]
        and record.configuration["commits"]["headwise"] == "of headwise"
    )
    at = {model: (256, model.split(",")[0]) for model in MODELS} | {"roberta": (None, None)}
    assert [(m.model, m.value, (m.k, m.sharing), m.n, m.repetitions) for m in record.select("perplexity")] == [
        (model, 4.0 if "key-value" in model else 8.0, at[model], 512, 3) for model in MODELS
    ]
    assert [curve.points for curve in record.curves] == [[(1.0, 8.0), (2.0, 7.0)]] * 36
    assert record.find("context_free_bits").n == 512
    before = (tmp_path / "ledger/figure-3c-paper-plan2.json").read_bytes()
    scores.scored.clear()
    assert "ledger:" in paper("figure-3c", "--data", text) and not scores.scored
    assert (tmp_path / "ledger/figure-3c-paper-plan2.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "device, cuda, expected", [("cuda", True, "cuda"), ("cuda", False, "cpu"), ("cpu", True, "cpu")]
)
def test_runs_are_scored_where_there_is_a_device(trained, text, scores, tmp_path, monkeypatch, device, cuda, expected):
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    devices = []
    monkeypatch.setattr(
        scoring, "compute_perplexity", lambda *a, device, **b: devices.append(device) or scores(*a, device=device, **b)
    )
    find("figure-3c").paper_scale.measure(Inputs(tmp_path / "runs", text), device, "c")
    assert devices == [expected] * 36


def test_a_dry_run_with_nothing_to_submit(paper, trained, text, tmp_path):
    assert "--dry-run" in (said := paper("figure-3c", "--data", text, "--dry-run")) and said.startswith(
        "fairseq-linformer: "
    )
    assert not [*(tmp_path / "ledger").iterdir()] and not (tmp_path / "submitted").exists()


@pytest.mark.slow
def test_runs_on_another_text_are_rejected(paper, trained, text, tmp_path):
    other = shutil.copytree(text, tmp_path / "other")
    said = paper("figure-3c", "--data", other)
    assert f"{text}/shard0" in said and f"{other}/shard0" in said and "n512-roberta" in said


@pytest.mark.slow
def test_runs_on_one_of_two_shards_are_rejected(paper, finished, two_shards, tmp_path):
    for model, seed in RUNS:
        finished(model, seed, data=two_shards / "shard0")
    said = paper("figure-3c", "--data", two_shards)
    assert f"{two_shards}/shard1" in said and "n512-roberta" in said and not [*(tmp_path / "ledger").iterdir()]


@pytest.mark.parametrize(
    "section, key, value",
    [
        ("task", "tokens_per_sample", 1024),
        ("model", "_name", "roberta"),
        ("model", "encoder_layers", 6),
        ("model", "encoder_embed_dim", 512),
        ("model", "encoder_ffn_embed_dim", 64),
        ("model", "encoder_attention_heads", 8),
        ("model", "projected_dim", 128),
        ("model", "sharing", "headwise"),
        ("model", "projection", "conv"),
        ("model", "projection_init", "normal"),
        ("model", "projection_lr_scale", 1.0),
        ("common", "seed", 2),
    ],
)
def test_a_run_of_another_model_is_rejected(paper, trained, text, section, key, value):
    edit(trained["layerwise"], section, key, value)
    said = paper("figure-3c", "--data", text)
    assert str(trained["layerwise"]) in said and f"{section}.{key} " in said and f"got {value};" in said


@pytest.mark.slow
def test_damaged_runs_are_rejected(paper, trained, text, scores, tmp_path):
    folder = trained["layerwise"]
    whole = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(whole[: len(whole) // 2] + "\n: [")
    assert str(folder / "config.yaml") in paper("figure-3c", "--data", text)
    (folder / "config.yaml").write_text(whole)
    log = folder / "logs/7/rank-0.txt"
    lines = log.read_text()
    log.write_text(lines.splitlines()[0] + "\n")
    assert re.search(f"{folder} .*2.*1", paper("figure-3c", "--data", text))
    log.write_text(lines)
    (folder / "attempts.jsonl").unlink()
    assert str(folder / "attempts.jsonl") in paper("figure-3c", "--data", text)
    assert not [*(tmp_path / "ledger").iterdir()]
