"""The demo's summary: numbers are taken from logs, and a model that learnt nothing fails."""

import pytest

from fairseq_linformer.reproduce import demo

LOG = """\
2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,234,567 (num. trained: 1,234,000)
2026-01-01 00:00:00 | INFO | valid | {"valid_loss": "9.1", "valid_ppl": "548.7"}
2026-01-01 00:00:00 | INFO | train | {"train_loss": "7.5"}
2026-01-01 00:00:01 | INFO | valid | {"valid_loss": "6.5", "valid_ppl": "90.51"}
2026-01-01 00:00:02 | INFO | fairseq_cli.train | done training in 3.0 seconds
"""
GOOD = {
    "perplexity_after": 60.0,
    "context_free_perplexity": 213.0,
    "accuracy_percent": 75.0,
    "majority_percent": 27.6,
}


@pytest.fixture
def log(tmp_path):
    (tmp_path / "train.log").write_text(LOG)
    return tmp_path / "train.log"


def test_the_last_line_with_the_number_counts(log):
    assert demo.last_stats(log, "valid_ppl") == {"valid_loss": 6.5, "valid_ppl": 90.51}
    with pytest.raises(ValueError, match="train.log has no line with valid_accuracy"):
        demo.last_stats(log, "valid_accuracy")


def test_parameters_are_those_that_fairseq_counted(log):
    assert demo.parameters(log) == 1234567
    log.write_text("nothing")
    with pytest.raises(ValueError, match="how many parameters"):
        demo.parameters(log)


def test_majority(tmp_path):
    (tmp_path / "labels").write_text("a\nb\na\nc\n")
    assert demo.majority_percent(tmp_path / "labels") == 50.0
    (tmp_path / "labels").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        demo.majority_percent(tmp_path / "labels")


@pytest.mark.parametrize(
    "change, sentences",
    [
        ({}, []),
        ({"perplexity_after": 213.0}, ["213.0, is not below that of a model without context, 213.0"]),
        ({"perplexity_after": float("nan")}, ["nan, is not below"]),
        ({"accuracy_percent": 27.6}, ["27.6 %, is not above that of always answering"]),
        ({"perplexity_after": 300.0, "accuracy_percent": 5.0}, ["300.0, is not below", "5.0 %, is not"]),
    ],
)
def test_a_model_that_learnt_nothing_fails(change, sentences):
    found = demo.failures({**GOOD, **change})
    assert len(found) == len(sentences)
    for sentence, part in zip(found, sentences):
        assert part in sentence


def test_an_unfinished_demo_is_one_sentence(tmp_path):
    with pytest.raises(SystemExit) as stopped:
        demo.main([str(tmp_path)])
    assert str(stopped.value).startswith("demo: ") and "\n" not in str(stopped.value)
