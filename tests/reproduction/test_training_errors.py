"""What a training experiment rejects before anything is trained, and its verification."""
# ruff: noqa: F811 (fixtures are imported)

import json
import shutil
from dataclasses import replace

import pytest

from fairseq_linformer.reproduction.experiment import Unfinished, describe_reuse
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.run_folders import check_clean_runs

from .trainer import (  # noqa: F401
    CONTINUED,
    LINFORMER,
    ORDER,
    copied_text,
    finished_runs,
    measure,
    runs,
    scores,
    text,
    trainer,
    warm_start,
)

# Before anything is trained


def test_rules_are_written_before_the_first_run(measure, trainer, warm_start, tmp_path, monkeypatch):
    """A rule that changes afterwards is not that of the record."""
    path, rules = (
        tmp_path / "runs/smoke/rules/warm-start.json",
        {claim.identifier: claim.rule for claim in warm_start.claims},
    )
    seen = []
    trainer.before = lambda job: seen.append(json.loads(path.read_text()))
    with pytest.raises(Unfinished):
        measure(1e-6)
    assert seen == [rules]
    monkeypatch.setattr(warm_start, "claims", tuple(replace(claim, rule="a later one") for claim in warm_start.claims))
    assert measure().rules == rules


DAMAGES = {
    f"{CONTINUED}/checkpoints/checkpoint_last.pt": (None, "junk"),
    f"{LINFORMER}-converted/seed1/attempts.jsonl": (None, "", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/.origin.json": (None, "{", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/perplexity.json": ("{",),
    f"{LINFORMER}-converted/seed1/config.yaml": ("\n: [",),
    f"starts/{LINFORMER}-converted/seed1.pt": ("junk",),
    "rules/warm-start.json": ("{", "[]", '{"warm-start": 3}'),
}


@pytest.mark.parametrize(
    "path, content", [(path, content) for path, contents in DAMAGES.items() for content in contents]
)
def test_damage_is_found_before_other_runs_are_trained(measure, runs, trainer, path, content):
    shutil.rmtree(runs / f"smoke/{LINFORMER}-continued")
    damaged = runs / "smoke" / path
    damaged.unlink() if content is None else damaged.write_text(content)
    with pytest.raises(ValueError, match=damaged.name):
        measure()
    assert not trainer.trained
    assert damaged.exists() == (content is not None)


@pytest.mark.slow
def test_runs_and_text_can_be_moved(measure, finished_runs, runs, trainer, copied_text, text, tmp_path):
    """The runs were trained in another folder; the text is a copy behind a link, or its only shard."""
    (tmp_path / "link").symlink_to(copied_text)
    expected = finished_runs[1]
    for here in (tmp_path / "link", copied_text / "shard0", text):
        assert measure(text=here) == expected
    assert not trainer.trained


def test_a_removed_start_is_made_again(measure, runs, trainer, finished_runs):
    """The record counts the training time after it."""
    starts = runs / "smoke/starts"
    before = {path: path.read_bytes() for path in starts.rglob("*.pt")}
    shutil.rmtree(starts)
    assert measure() == finished_runs[1]
    assert {path: path.read_bytes() for path in starts.rglob("*.pt")} == before and len(before) == 1


def test_what_has_begun_elsewhere_is_not_resumed(measure, runs, trainer):
    (runs / "smoke" / CONTINUED / "done").unlink()
    with pytest.raises(ValueError, match=f"{CONTINUED} .*checkpoint.finetune_from_model"):
        measure()
    assert not trainer.trained


def test_another_text_is_rejected(measure, runs, copied_text, trainer):
    path = copied_text / "shard0/train.bin"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ValueError, match="text"):
        measure(text=copied_text)


def test_a_damaged_manifest_is_rejected(measure, copied_text, trainer):
    (copied_text / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="manifest.json"):
        measure(text=copied_text)
    assert not trainer.trained


def test_a_gpu_is_needed_for_the_gpu_scale(trainer, text, tmp_path, monkeypatch, warm_start):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="--scale gpu"):
        warm_start.measure("gpu", Inputs(tmp_path / "runs", text), "c")
    assert not trainer.trained and not (tmp_path / "runs").exists()


# A record that is in the ledger


@pytest.fixture
def there(finished_runs):
    return finished_runs[1]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["sizes", "seeds", "runs"])
def test_a_record_of_another_plan_is_rejected(warm_start, there, runs, text, key):
    inputs = Inputs(runs, text)
    warm_start.check_ledger("smoke", inputs, [there])
    other = {
        "sizes": {**there.configuration["sizes"], "lr": 0.5},
        "seeds": [1, 2],
        "runs": {**there.configuration["runs"], "roberta": {}},
    }[key]
    record = there.copy_with(configuration={**there.configuration, key: other})
    for check in (
        lambda: warm_start.check_ledger("smoke", inputs, [record]),
        lambda: warm_start.measure_again(record, inputs),
    ):
        with pytest.raises(ValueError, match=f"warm-start-smoke-plan2 .*{key}"):
            check()


def test_a_record_of_other_data_is_rejected(warm_start, there, runs, text):
    record = there.copy_with(data="sha256: dict.txt 0")
    for check in (warm_start.check_ledger, lambda scale, inputs, records: warm_start.measure_again(records[0], inputs)):
        with pytest.raises(ValueError, match="warm-start-smoke-plan2 .*data.*dict.txt 0"):
            check("smoke", Inputs(runs, text), [record])


@pytest.mark.slow
@pytest.mark.parametrize("missing", ORDER)
def test_a_record_whose_runs_are_elsewhere_is_rejected(warm_start, there, runs, text, missing):
    (runs / "smoke" / missing / "done").unlink()
    with pytest.raises(ValueError, match="warm-start-smoke-plan2 .*--verify warm-start-smoke-plan2"):
        warm_start.check_ledger("smoke", Inputs(runs, text), [there])


def test_other_records_are_not_checked(warm_start, there, tmp_path, text):
    others = [
        there.copy_with(identifier="warm-start-smoke"),
        there.copy_with(experiment="scratch"),
        there.copy_with(scale="cpu"),
        there.copy_with(made_by="script"),
    ]
    warm_start.check_ledger("smoke", Inputs(tmp_path, text), others)


@pytest.mark.slow
def test_measured_again_from_the_checkpoints(warm_start, there, runs, text, scores, trainer):
    """What was written down is not believed."""
    scores.bits = {"converted": 2.25}
    how, (record,) = warm_start.measure_again(there, Inputs(runs, text))
    assert len(scores.scored) == 3 and not trainer.trained and "5" in how
    assert record.find("bits", model="converted").value == 2.25 and record.command == there.command
    (runs / "smoke" / ORDER[-1] / "done").unlink()
    shutil.rmtree(runs / "smoke" / ORDER[-1])
    how, _ = warm_start.measure_again(there, Inputs(runs, text))
    assert trainer.trained == ORDER[-1:] and "4" in how and "1" in how


def test_verification_needs_a_text(warm_start, there, runs):
    with pytest.raises(ValueError, match="--data"):
        warm_start.measure_again(there, Inputs(runs))


def test_how_measured():
    assert describe_reuse([False, False]) != describe_reuse([True, True]) != describe_reuse([True, False])
    assert "2" in describe_reuse([True, True]) and "1" not in describe_reuse([True, True])


@pytest.mark.parametrize("scale, allowed", [("smoke", True), ("cpu", False)])
def test_a_finished_run_with_uncommitted_changes_is_rejected_above_the_smoke_scale(
    warm_start, finished_runs, runs, text, scale, allowed
):
    folders = warm_start.folders("smoke", Inputs(runs, text))
    check_clean_runs(folders, scale)
    attempts = folders[0].path / "attempts.jsonl"
    first = json.loads(attempts.read_text().splitlines()[0])
    attempts.write_text(json.dumps({**first, "commit": "abc-dirty"}) + "\n")
    if allowed:
        check_clean_runs(folders, scale)
    else:
        with pytest.raises(ValueError, match=f"{folders[0].path} needs a clean commit.*cpu.*abc-dirty"):
            check_clean_runs(folders, scale)
