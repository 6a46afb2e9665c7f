"""``fairseq-linformer reproduce`` over runs and texts that were moved, or that somebody took something of. All at smoke scale."""

import json
import shutil

import pytest

from fairseq_linformer.reproduce import ledger, run_of_plan, runner, scales, trained, training_plan

from .test_reproduce import command, smoke  # noqa: F401

CONTINUED, CONVERTED = "linformer-n16-k8-headwise-average-continued/seed1", "linformer-n16-k8-headwise-average-converted/seed1"


@pytest.fixture(scope="module")
def text(tmp_path_factory, mlm_data):
    folder = tmp_path_factory.mktemp("text")
    shutil.copytree(mlm_data, folder / "shard0")
    return folder


@pytest.fixture(scope="module")
def _trained(tmp_path_factory, text):
    """Of ``warm-start``: two from scratch, and three that start from these."""
    runs, sizes = tmp_path_factory.mktemp("trained"), scales.SCALES["smoke"]
    every = training_plan.in_turn(training_plan.measured_runs("warm-start", sizes))
    trained.remembered("warm-start", runs / "smoke")
    assert runner.train(every, sizes, runs / "smoke", text, None) is None
    return runs


@pytest.fixture
def runs(_trained, tmp_path):
    return shutil.copytree(_trained, tmp_path / "runs")


@pytest.mark.slow
def test_what_is_trained_can_be_moved(runs, smoke, text, tmp_path):  # noqa: F811
    """The runs were trained in another folder; their text lies elsewhere, behind a link, and is given by its only shard."""
    moved = shutil.copytree(text, tmp_path / "moved")
    (tmp_path / "link").symlink_to(moved)
    assert "warm-start: not enough evidence at scale smoke" in smoke("warm-start", "--text", tmp_path / "link")
    entry = (tmp_path / "ledger/warm-start-smoke.json").read_bytes()
    assert "warm-start: not enough evidence" in smoke("warm-start", "--text", moved / "shard0") and (tmp_path / "ledger/warm-start-smoke.json").read_bytes() == entry


@pytest.mark.slow
def test_what_is_begun_goes_on_where_it_began(runs, smoke, text):  # noqa: F811
    (runs / "smoke" / CONTINUED / "done").unlink()
    said = smoke("warm-start", "--text", text)
    assert "continued/seed1 holds another configuration: checkpoint.finetune_from_model is " in said
    assert said.endswith("; move it away, put back what was moved, or give another --runs")


@pytest.mark.slow
def test_what_was_taken_from_a_run_is_told_before_others_are_trained(runs, smoke, text, tmp_path, monkeypatch):  # noqa: F811
    run = runs / "smoke" / CONVERTED
    monkeypatch.setattr(run_of_plan, "train", lambda *_: pytest.fail("something was trained"))
    shutil.rmtree(runs / "smoke" / CONTINUED)  # to be trained, after all that is refused here
    for name in ("stints.jsonl", "checkpoints/checkpoint_last.pt"):
        (run / name).rename(tmp_path / "away")
        assert smoke("warm-start", "--text", text).endswith("; move it away, and the same command trains it anew")
        (tmp_path / "away").rename(run / name)
    rules = runs / "smoke/rules/warm-start.json"
    for broken in ("{", "[]", json.dumps({"warm-start": 3})):
        rules.write_text(broken)
        assert "warm-start.json is no file of rules by claim" in smoke("warm-start", "--text", text)
    whole = shutil.copytree(text, tmp_path / "text")
    for broken in ("{", "[]", json.dumps({"sources": [{"files": ["train.txt"]}]})):
        (whole / "manifest.json").write_text(broken)
        assert "manifest.json does not say what the text was made of" in smoke("warm-start", "--text", whole)


@pytest.mark.slow
def test_a_start_that_was_removed_is_made_again(runs, smoke, text, tmp_path):  # noqa: F811
    starts = runs / "smoke/starts"
    before = {path.relative_to(starts): path.read_bytes() for path in starts.rglob("*.pt")}
    shutil.rmtree(starts)
    assert "warm-start: not enough evidence" in smoke("warm-start", "--text", text)
    assert before and {path.relative_to(starts): path.read_bytes() for path in starts.rglob("*.pt")} == before
    assert ledger.read(tmp_path / "ledger/warm-start-smoke.json").seconds > 0
