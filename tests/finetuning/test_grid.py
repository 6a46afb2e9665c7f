"""What is made of the results of a grid, and how it stands in the ledger."""

import pytest

from fairseq_linformer.finetuning.grid import middle_run, settings, table
from fairseq_linformer.finetuning.run import headline
from fairseq_linformer.reproduce import finetuned, ledger
from fairseq_linformer.reproduce.paper import TABLE_2
from fairseq_linformer.task_data.table import TASKS

PRETRAINING = {"cfg": {"model": {"encoder_layers": 12, "encoder_embed_dim": 768}}, "num_updates": 250000}


def result(lr, seed, accuracy, task="sst-2", sharing="layerwise", k="256", name="checkpoint_last.pt", pretraining=PRETRAINING, projection="linear",
           from_scratch=False):  # fmt: skip
    scores = {name: {"value": accuracy, "interval": [accuracy - 0.01, accuracy + 0.01]} for name in ("accuracy", "f1", "matthews")}
    return {
        "task": task, "splits": {"valid": {"rows": 872, "scores": scores, "majority": 0.509}}, "seconds": 3.0, "data": "of a test",
        "commit": "abc", "date": "2026-01-01", "hardware": {"processor": "x", "cores": 2}, "versions": {"python": "3"},
        "model": {"checkpoint": name, "max_positions": 512, "projected_dim": k, "sharing": sharing, "projection": projection,
                  "from_scratch": from_scratch, "pretraining": pretraining},
        "recipe": {"lr": lr, "batch_size": 32, "epochs": 10, "seed": seed, "overrides": [], "device": "cpu"},
    }  # fmt: skip


RUNS = [result(lr, seed, accuracy) for lr, accuracies in ((1e-5, (0.91, 0.93, 0.90)), (2e-5, (0.94, 0.89, 0.92))) for seed, accuracy in enumerate(accuracies, 1)]


def test_the_median_over_seeds_at_the_best_rate():
    first, second = settings(TASKS["sst-2"], RUNS[::-1])
    assert (first.lr, first.median, first.seeds, first.values) == (2e-5, 0.92, (1, 2, 3), (0.94, 0.89, 0.92))
    assert (second.lr, second.median) == (1e-5, 0.91)
    said = table(TASKS["sst-2"], [first, second])
    assert said[1].split() == "2e-05 32 3 92.00 89.00 to 94.00".split()
    assert said[-1].startswith("sst-2: accuracy 92.00 %, the median over 3 seeds at lr 2e-05, batches of 32")


def test_the_run_of_the_median():
    assert middle_run(TASKS["sst-2"], RUNS)["splits"]["valid"]["scores"]["accuracy"]["value"] == 0.92
    assert middle_run(TASKS["sst-2"], RUNS[:2])["recipe"]["seed"] == 1  # of two the worse
    assert headline(result(1e-5, 1, 0.8, task="qqp")) == ["accuracy 80.00 % (79.00 to 81.00)", "f1 0.8000 (0.7900 to 0.8100)"]
    assert headline(result(1e-5, 1, 0.8, task="cola"))[0].startswith("matthews 0.8000")


def test_the_entry_and_the_table(tmp_path):
    grid = ledger.read(ledger.write(finetuned.entry_of(TASKS["sst-2"], RUNS, "sst-2-base", "the command"), tmp_path))
    assert grid.identifier == "finetuning-sst-2-base" and grid.measured["valid accuracy"] == ledger.Measurement(92.0, "%", [89.0, 94.0], 3)
    assert grid.paper["value"] == 93.1 and "shared kv, layer" in grid.paper["where"] and grid.seconds == 18
    assert grid.command == "the command" and grid.commit == "abc" and grid.date == "2026-01-01"
    ledger.write(finetuned.entry_of(TASKS["qqp"], [result(1e-5, 1, 0.8, task="qqp")], "qqp base", "the command"), tmp_path)
    with pytest.raises(ValueError, match="does not say its commit"):
        ledger.write(finetuned.entry_of(TASKS["qqp"], [{**RUNS[0], "commit": ""}], "none", "the command"), tmp_path)
    assert "last epoch on the test set" in ledger.read(ledger.write(finetuned.entry_of(TASKS["imdb"], RUNS[:1], "i", "c"), tmp_path / "i")).claim
    finetuned.main([str(tmp_path)])
    rows = [line for line in (tmp_path / "finetuning.md").read_text().splitlines() if line.startswith("| ") and "paper" not in line]
    assert "92.00 % (3 seeds) | 89.00 to 94.00 | 50.90 % | 2e-05, 32, 10 | 93.1 (512, Linformer, 256, shared kv, layer) |" in rows[0]
    assert "| qqp |" in rows[1] and "80.00 %, f1 0.8000 | 79.00 to 81.00" in rows[1] and "90.8" in rows[1]


@pytest.mark.parametrize("changed, row", [
    ({}, "512, Linformer, 256, shared kv, layer"),
    ({"sharing": "headwise", "k": "128"}, "512, Linformer, 128"),
    ({"sharing": "none"}, None),
    ({"k": "64"}, None),
    ({"k": "", "sharing": "", "projection": ""}, "512, RoBERTa-base"),
    ({"from_scratch": True}, None),
    ({"projection": "mean-pool"}, None),
    ({"k": "", "projection": "", "name": "distilbert/distilbert-base-uncased", "pretraining": {}}, "512, Distilled BERT"),
    ({"k": "", "projection": "", "name": "google-bert/bert-base-uncased", "pretraining": {}}, "512, BERT-base"),
    ({"k": "", "projection": "", "name": "FacebookAI/roberta-base", "pretraining": {}}, "512, RoBERTa-base"),
    ({"k": "", "projection": "", "name": "other", "pretraining": {}}, None),
    ({"k": "", "projection": "", "name": "albert/albert-base-v2", "pretraining": {}}, None),
    ({"k": "", "projection": "", "name": "FacebookAI/xlm-roberta-base", "pretraining": {}}, None),
])  # fmt: skip
def test_the_row_of_the_paper(changed, row):
    assert finetuned.paper_row(result(1e-5, 1, 0.9, **changed)["model"]) == row
    assert row is None or row in TABLE_2


def test_without_entries_it_says_what_makes_them(tmp_path):
    with pytest.raises(SystemExit, match="there is no finetuning-.*json in"):
        finetuned.main([str(tmp_path)])


def test_what_pretraining_was_worth(tmp_path):
    for name, accuracy, scratch in (("with", 0.85, False), ("without", 0.80, True)):
        ledger.write(finetuned.entry_of(TASKS["sst-2"], [result(1e-5, 1, accuracy, from_scratch=scratch)], name, "c"), tmp_path)
    for name, accuracies, scratch in (("3-with", (0.90, 0.91, 0.92), False), ("3-without", (0.91, 0.93, 0.92), True)):
        runs = [result(1e-5, seed, accuracy, from_scratch=scratch) for seed, accuracy in enumerate(accuracies)]
        ledger.write(finetuned.entry_of(TASKS["sst-2"], runs, name, "c"), tmp_path)
    finetuned.main([str(tmp_path)])
    text = (tmp_path / "finetuning.md").read_text()
    model = finetuned._shape(result(1e-5, 1, 0.85)["model"])
    assert f"| sst-2 | {model} | 85.00 | 80.00 | +5.00 | +1.44 to +8.56, 95 %, of the rows | more |" in text  # 1.96 sqrt((0.1275 + 0.16) / 872)
    assert f"| sst-2 | {model} | 91.00 | 92.00 | -1.00 | -3.00 to +1.00, of 3 and 3 seeds, lowest less highest to highest less lowest | not told apart |" in text
