"""What is made of the results of a grid, and how it stands in the ledger."""

import pytest

from fairseq_linformer.finetuning.grid import settings, table
from fairseq_linformer.reproduce import finetuned, ledger
from fairseq_linformer.reproduce.paper import TABLE_2
from fairseq_linformer.task_data.table import TASKS

PRETRAINING = {"cfg": {"model": {"encoder_layers": 12, "encoder_embed_dim": 768}}, "num_updates": 250000}


def result(lr, seed, accuracy, task="sst-2", sharing="layerwise", k="256", name="checkpoint_last.pt", pretraining=PRETRAINING):
    scores = {name: {"value": accuracy, "interval": [accuracy - 0.01, accuracy + 0.01]} for name in ("accuracy", "f1", "matthews")}
    return {
        "task": task, "splits": {"valid": {"rows": 872, "scores": scores, "majority": 0.509}}, "seconds": 3.0, "data": "of a test",
        "model": {"checkpoint": name, "max_positions": 512, "projected_dim": k, "sharing": sharing, "from_scratch": False, "pretraining": pretraining},
        "recipe": {"lr": lr, "batch_size": 32, "epochs": 10, "seed": seed, "overrides": [], "device": "cpu"},
    }  # fmt: skip


RUNS = [result(lr, seed, accuracy) for lr, accuracies in ((1e-5, (0.91, 0.93, 0.90)), (2e-5, (0.94, 0.89, 0.92))) for seed, accuracy in enumerate(accuracies, 1)]


def test_the_median_over_seeds_at_the_best_rate():
    first, second = settings(TASKS["sst-2"], RUNS[::-1])
    assert (first.lr, first.median, first.seeds, first.values) == (2e-5, 0.92, (1, 2, 3), (0.94, 0.89, 0.92))
    assert (second.lr, second.median) == (1e-5, 0.91)
    said = table(TASKS["sst-2"], [first, second])
    assert said[1].split() == "2e-05 32 3 92.00 89.00 to 94.00".split()
    assert said[-1].startswith("sst-2: accuracy 92.00, the median over 3 seeds at lr 2e-05, batches of 32")


def test_the_entry_and_the_table(tmp_path):
    grid = ledger.read(finetuned.write_entry(TASKS["sst-2"], RUNS, tmp_path, "sst-2-base"))
    assert grid.identifier == "finetuning-sst-2-base" and grid.measured["valid accuracy"] == ledger.Measurement(92.0, "%", [89.0, 94.0], 3)
    assert grid.paper["value"] == 93.1 and "shared kv, layer" in grid.paper["where"] and grid.seconds == 18
    assert grid.command == "fairseq-linformer finetune sst-2 checkpoint_last.pt --lr 1e-05,2e-05 --batch-size 32 --seed 1,2,3 --epochs 10 --grid"
    finetuned.write_entry(TASKS["qqp"], [result(1e-5, 1, 0.8, task="qqp")], tmp_path, "qqp base")
    finetuned.main([str(tmp_path)])
    rows = [line for line in (tmp_path / "finetuning.md").read_text().splitlines() if line.startswith("| ") and "paper" not in line]
    assert "92.00 % (3 seeds) | 89.00 to 94.00 | 50.90 % | 2e-05, 32, 10 | 93.1 (512, Linformer, 256, shared kv, layer) |" in rows[0]
    assert "| qqp |" in rows[1] and "80.00 %, F1 0.8000 | 79.00 to 81.00" in rows[1] and "90.8" in rows[1]


@pytest.mark.parametrize("changed, row", [
    ({}, "512, Linformer, 256, shared kv, layer"),
    ({"sharing": "headwise", "k": "128"}, "512, Linformer, 128"),
    ({"sharing": "none"}, None),
    ({"k": "64"}, None),
    ({"k": "", "sharing": ""}, "512, RoBERTa-base"),
    ({"k": "", "name": "distilbert/distilbert-base-uncased", "pretraining": {}}, "512, Distilled BERT"),
    ({"k": "", "name": "google-bert/bert-base-uncased", "pretraining": {}}, "512, BERT-base"),
    ({"k": "", "name": "FacebookAI/roberta-base", "pretraining": {}}, "512, RoBERTa-base"),
    ({"k": "", "name": "other", "pretraining": {}}, None),
])  # fmt: skip
def test_the_row_of_the_paper(changed, row):
    assert finetuned.paper_row(result(1e-5, 1, 0.9, **changed)["model"]) == row
    assert row is None or row in TABLE_2


def test_without_entries_it_says_what_makes_them(tmp_path):
    with pytest.raises(SystemExit, match="there is no finetuning-.*json in"):
        finetuned.main([str(tmp_path)])
