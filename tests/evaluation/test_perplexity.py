"""``evaluate --perplexity`` against fairseq-validate."""

import json

import pytest

from .. import fairseq_commands


@pytest.mark.slow
def test_perplexity_equals_fairseqs_in_any_batch(evaluate, train_checkpoint, mlm_data, caplog, tmp_path):
    checkpoint, results = train_checkpoint() / "checkpoint_last.pt", {}
    for name, options in {
        "one": "--seed 7",
        "again": "--seed 7 --max-tokens 16",
        "seed": "--seed 2",
        "short": "--seed 7 --tokens-per-sample 8",
    }.items():
        evaluate(checkpoint, "--perplexity", mlm_data, "--json", tmp_path / f"{name}.json", *options.split())
        results[name] = json.loads((tmp_path / f"{name}.json").read_text())
    one, again = results["one"], results["again"]
    assert one["masked"] == again["masked"] and one["bits"] == pytest.approx(again["bits"], abs=1e-6)
    assert results["seed"]["bits"] != one["bits"] and results["short"]["positions"] == 8
    caplog.set_level("INFO")
    options = "--task masked_lm --batch-size 8 --cpu --num-workers 0 --log-format json"
    options += " --required-batch-size-multiple 1"  # with the default of 8, fairseq drops the remaining rows
    user_dir = ("--user-dir", fairseq_commands.PLUGIN)
    fairseq_commands.command("validate", mlm_data, *user_dir, "--path", checkpoint, *options.split())
    assert one["bits"] == pytest.approx(fairseq_commands.last_number(caplog.text, "valid_loss"), abs=0.001)


@pytest.mark.slow
def test_share_of_masked_tokens(evaluate, train_checkpoint, mlm_data, tmp_path):
    checkpoint = train_checkpoint() / "checkpoint_last.pt"
    printed = evaluate(checkpoint, "--perplexity", mlm_data, "--json", tmp_path / "s.json", "--mask-prob", 0.5)
    found = json.loads((tmp_path / "s.json").read_text())
    assert f"{found['masked']:,} of {found['tokens']:,} tokens masked" in printed
    assert found["masked"] / found["tokens"] == pytest.approx(0.5, abs=0.03)
