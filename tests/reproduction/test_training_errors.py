"""What a training experiment rejects before anything is trained."""
# ruff: noqa: F811 (fixtures are imported)

import json
import shutil

import pytest

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


DAMAGES = {
    f"{CONTINUED}/checkpoints/checkpoint_last.pt": (None, "junk"),
    f"{LINFORMER}-converted/seed1/attempts.jsonl": (None, "", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/.origin.json": (None, "{", "[" * 100_000),
    f"{LINFORMER}-converted/seed1/perplexity.json": ("{",),
    f"{LINFORMER}-converted/seed1/config.yaml": ("\n: [",),
    f"starts/{LINFORMER}-converted/seed1.pt": ("junk",),
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
