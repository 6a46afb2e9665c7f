"""``fairseq-linformer reproduce`` over runs and texts that were moved, or that somebody took something of. All at smoke scale."""

import json
import re
import shutil

import pytest

from fairseq_linformer.reproduce import ledger, run_of_plan, runner, scales, trained, training_plan

from .test_reproduce import command, smoke  # noqa: F401

DEEP = "[" * 100_000
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
    last, start = run / "checkpoints/checkpoint_last.pt", runs / "smoke/starts" / f"{CONVERTED}.pt"
    stint = {"hardware": {}, "versions": {}, "date": "2026-01-01", "commit": "a"}
    odd = (None, "", DEEP, json.dumps({**stint, "hardware": None}), json.dumps({**stint, "date": 3}))
    advice = "; move .*-converted/seed1 away, and the same command trains it anew$"
    for path, broken, said in (*((run / "attempts.jsonl", content, "does not say where and with what" + ".*" + advice) for content in odd), (last, None, advice), (last, "", advice),
                               (start, "junk", "; remove it, and the same command makes it again$"), (run / "perplexity.json", "{", "; remove it, and the same command measures it again$"),
                               (run / ".origin.json", DEEP, "does not say what it was made of; move it away")):  # fmt: skip
        whole = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True) if broken is None else path.write_text(broken)
        assert re.search(said, smoke("warm-start", "--text", text)), (path, broken)
        path.unlink(missing_ok=True) if whole is None else path.write_bytes(whole)
    rules = runs / "smoke/rules/warm-start.json"
    for broken in ("{", "[]", "{}", DEEP, json.dumps({"warm-start": 3})):
        rules.write_text(broken)
        assert "warm-start.json is no file of rules by claim" in smoke("warm-start", "--text", text)
    whole = shutil.copytree(text, tmp_path / "text")
    for broken in ("{", "[]", DEEP, '{"sources": []}', '{"sources": [{"files": ["train.txt"]}]}', '{"sources": [{"files": [{"path": "\\ud800/x", "sha256": "a"}]}]}'):
        (whole / "manifest.json").write_text(broken)
        assert "manifest.json does not say what the text was made of" in smoke("warm-start", "--text", whole)
    (whole / "manifest.json").unlink()
    (whole / "shard1").mkdir()
    assert smoke("warm-start", "--text", whole).endswith("there is no train.idx in " + f"{whole}/shard1, as `fairseq-linformer prepare pretraining` writes it")


@pytest.mark.slow
def test_a_start_that_was_removed_is_made_again(runs, smoke, text, tmp_path):  # noqa: F811
    starts = runs / "smoke/starts"
    before = {path.relative_to(starts): path.read_bytes() for path in starts.rglob("*.pt")}
    shutil.rmtree(starts)
    assert "warm-start: not enough evidence" in smoke("warm-start", "--text", text)
    assert before and {path.relative_to(starts): path.read_bytes() for path in starts.rglob("*.pt")} == before
    assert ledger.read(tmp_path / "ledger/warm-start-smoke.json").seconds > 0
