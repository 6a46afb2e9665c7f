"""Results of finished runs, and rejection of damaged ones."""
# ruff: noqa: F811 (fixtures are imported)

import json
import os
import shutil

import pytest
import torch

from fairseq_linformer.evaluation.perplexity import Perplexity
from fairseq_linformer.files import fingerprint
from fairseq_linformer.reproduction import scoring
from fairseq_linformer.reproduction.claim import Claim
from fairseq_linformer.reproduction.run_folders import RunFolder, finished_run
from fairseq_linformer.reproduction.runs import Model, compared_run
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.text import checksums, digest, find_shards

from .trainer import HARDWARE, VERSIONS, copied_text, finished_runs, log, runs, text, two_shards  # noqa: F401

SMOKE = SCALES["smoke"]


def folder_of(runs, text, k=8):
    return RunFolder(compared_run(Model(16, k))(SMOKE, 1), SMOKE, runs / "smoke", text)


@pytest.fixture
def run(runs, text):
    """The converted model, which is scored."""
    return finished_run(folder_of(runs, text))


@pytest.fixture
def measured(monkeypatch):
    """The calls of ``evaluation.perplexity``, which finds 3 bits."""
    calls = []

    def measure(*arguments, **options):
        calls.append((*arguments, options))
        return Perplexity(8.0, 3.0, 0.5, 4, 32, 16, 0.1)

    monkeypatch.setattr(scoring, "compute_perplexity", measure)
    return calls


def rewrite(run, **changes):
    """A perplexity.json whose seal is right."""
    path = run.folder / "perplexity.json"
    found = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"} | changes
    path.write_text(json.dumps({**found, "seal": fingerprint(found)}))


# Perplexity


@pytest.mark.parametrize("device, expected", [("cpu", "cpu"), ("cuda", "cuda")])
def test_perplexity_is_measured_once(run, text, measured, device, expected):
    """On the first shard's validation split, with the masks of one seed for all runs."""
    (run.folder / "perplexity.json").unlink()
    assert not run.is_scored
    found = scoring.measure_perplexity(run, text, device)
    assert measured == [(run.last_checkpoint, find_shards(text)[0], {"seed": 1, "device": expected})]
    assert (
        found["bits"] == 3.0 and found["checkpoint"] == digest(run.last_checkpoint) and found["text"] == checksums(text)
    )
    assert run.is_scored and scoring.measure_perplexity(run, text, device) == found and len(measured) == 1


def test_all_shards_are_scored_on_the_split_of_the_first(run, two_shards, measured):
    """Only of that one a score keeps the checksum."""
    (run.folder / "perplexity.json").unlink()
    found = scoring.measure_perplexity(run, two_shards, "cpu")
    assert [call[:2] for call in measured] == [(run.last_checkpoint, two_shards / "shard0")]
    assert "shard0/valid.bin" in found["text"] and "shard1/valid.bin" not in found["text"]


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", "[" * 100_000])
def test_a_damaged_score_is_rejected(run, text, broken):
    (run.folder / "perplexity.json").write_text(broken)
    for check in (lambda: scoring.measure_perplexity(run, text, "cpu"), lambda: scoring.check_finished_run(run, text)):
        with pytest.raises(ValueError, match="perplexity.json"):
            check()


@pytest.mark.parametrize(
    "changes", [{"bits": "x"}, {"bits": [1]}, {"bits": float("nan")}, {"perplexity": float("inf")}]
)
def test_a_score_that_is_no_number_is_rejected(run, text, changes):
    rewrite(run, **changes)
    with pytest.raises(ValueError, match="perplexity.json"):
        scoring.read_perplexity(run, text)


@pytest.mark.parametrize("name", ["bits", "perplexity", "checkpoint", "text", "seal"])
def test_a_score_without_a_field_is_rejected(run, text, name):
    path = run.folder / "perplexity.json"
    found = {key: value for key, value in json.loads(path.read_text()).items() if key not in (name, "seal")}
    path.write_text(json.dumps(found if name == "seal" else {**found, "seal": fingerprint(found)}))
    with pytest.raises(ValueError, match="perplexity.json"):
        scoring.read_perplexity(run, text)


def test_an_edited_score_is_rejected(run, text):
    path = run.folder / "perplexity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "bits": 0.1}))
    with pytest.raises(ValueError, match="perplexity.json"):
        scoring.read_perplexity(run, text)


@pytest.mark.parametrize("name, other", [("checkpoint", "0"), ("text", {"valid.bin": "0"})])
def test_a_score_of_something_else_is_rejected(run, text, name, other):
    scoring.read_perplexity(run, text)
    rewrite(run, **{name: other})
    with pytest.raises(ValueError, match=f"perplexity.json.*{name}"):
        scoring.read_perplexity(run, text)


# Finished runs


def test_the_last_checkpoint_of_another_run(run, runs, text, measured):
    scoring.check_last_checkpoint(run)
    shutil.copy(runs / "smoke/roberta-n16-continued/seed1/checkpoints/checkpoint_last.pt", run.last_checkpoint)
    (run.folder / "perplexity.json").unlink()
    for check in (lambda: scoring.check_finished_run(run, text), lambda: scoring.measure_perplexity(run, text, "cpu")):
        with pytest.raises(ValueError, match=f"{run.last_checkpoint} .*model.projected_dim.* 8.* None"):
            check()
    assert not measured


@pytest.mark.parametrize(
    "section, key, value",
    [
        ("model", "sharing", "none"),
        ("model", "projection", "conv"),
        ("model", "projection_init", "normal"),
        ("model", "projection_lr_scale", 4.0),
        ("task", "tokens_per_sample", 32),
        ("common", "seed", 2),
    ],
)
def test_the_last_checkpoint_of_a_like_run(run, section, key, value):
    checkpoint = torch.load(run.last_checkpoint, weights_only=True)
    checkpoint["cfg"][section][key] = value
    torch.save(checkpoint, run.last_checkpoint)
    with pytest.raises(ValueError, match=f"{section}.{key}.*{value}"):
        scoring.check_last_checkpoint(run)


@pytest.mark.parametrize("updates", [3, 5])
def test_the_last_checkpoint_of_another_update(run, updates):
    checkpoint = torch.load(run.last_checkpoint, weights_only=True)
    torch.save({**checkpoint, "optimizer_history": [{"num_updates": 4}, {"num_updates": updates}]}, run.last_checkpoint)
    with pytest.raises(ValueError, match=f"{run.last_checkpoint} .*4.*{updates}"):
        scoring.check_last_checkpoint(run)
    torch.save({**checkpoint, "optimizer_history": []}, run.last_checkpoint)
    with pytest.raises(ValueError, match="checkpoint_last.pt"):
        scoring.check_last_checkpoint(run)


ATTEMPT = {"hardware": {}, "versions": {}, "date": "2026-01-01", "commit": "a"}


@pytest.mark.parametrize(
    "attempts",
    [
        None,
        "",
        "[" * 100_000,
        json.dumps({**ATTEMPT, "hardware": None}),
        json.dumps({**ATTEMPT, "date": 3}),
        json.dumps({**ATTEMPT, "commit": None}),
        json.dumps({**ATTEMPT, "commit": ""}),
    ],
)
def test_a_run_that_does_not_say_where_it_was_trained(run, text, attempts):
    path = run.folder / "attempts.jsonl"
    path.unlink() if attempts is None else path.write_text(attempts)
    with pytest.raises(ValueError, match=f"move {run.folder} away"):
        scoring.check_finished_run(run, text)
    with pytest.raises(ValueError):
        scoring.provenance([run.folder])


@pytest.mark.parametrize("content", [None, "", "junk"])
def test_a_missing_or_damaged_checkpoint(run, text, content):
    run.last_checkpoint.unlink() if content is None else run.last_checkpoint.write_text(content)
    with pytest.raises(ValueError, match=f"{run.last_checkpoint} .*move {run.folder} away"):
        scoring.check_finished_run(run, text)


def test_a_damaged_start(run, text):
    run.initial_checkpoint.write_text("junk")
    with pytest.raises(ValueError, match=f"{run.initial_checkpoint} .*remove"):
        scoring.check_finished_run(run, text)
    run.initial_checkpoint.unlink()
    scoring.check_finished_run(run, text)  # it is made again


def test_provenance(runs, text):
    """Of all runs: every commit and the last date."""
    folders = [folder_of(runs, text).path, runs / "smoke/roberta-n16-scratch/seed1"]
    for folder, commit, date in zip(folders, ("one", "two"), ("2024-03-01", "2024-02-01")):
        attempt = {"hardware": HARDWARE, "versions": VERSIONS, "date": date, "commit": commit}
        (folder / "attempts.jsonl").write_text(json.dumps(attempt) + "\n")
    found = scoring.provenance(folders)
    assert found == {"commit": "one; two", "hardware": HARDWARE, "versions": VERSIONS, "date": "2024-03-01"}
    assert scoring.provenance(folders[1:])["commit"] == "two"
    (folders[1] / "attempts.jsonl").write_text(json.dumps({**ATTEMPT, "commit": ""}) + "\n")
    with pytest.raises(ValueError, match="commit"):
        scoring.provenance(folders)


# Curves


def test_a_curve_has_the_later_value_of_an_update(tmp_path):
    """Stopped after update 30 and resumed from update 20: the second log is the later one, whatever its name."""
    first, second = (
        log(tmp_path, points, name)
        for points, name in (([(10, 8.0), (20, 7.0), (30, 6.5)], "b.txt"), ([(30, 6.25), (40, 6.0)], "a.txt"))
    )
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    expected = [(10, 8.0), (20, 7.0), (30, 6.25), (40, 6.0)]
    assert scoring.validation_curve(tmp_path, 40) == expected
    with pytest.raises(ValueError, match=f"{tmp_path} .*41.*40"):
        scoring.validation_curve(tmp_path, 41)
    os.utime(first, (3, 3))
    assert scoring.validation_curve(tmp_path, 40)[2] == (30, 6.5)


def test_other_lines_are_no_points(tmp_path):
    path = log(tmp_path, [(10, 8.0)], "job/rank-0.txt")
    train = '2024-01-01 | INFO | train | {"train_loss": "1.0", "train_num_updates": "20"}\n'
    path.write_bytes(b"\xff\n" + path.read_bytes() + train.encode() + b'| INFO | valid | {"valid_loss": "1.0"}\n')
    assert scoring.validation_curve(tmp_path, 10) == [(10, 8.0)]


def test_no_curve(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} .*curve"):
        scoring.validation_curve(tmp_path, 1)


# Rules


def claim(rule):
    return Claim("toy", "here", "It works.", rule, lambda records, scale: None)
