"""The best setting of a grid, and the run of its median."""

from fairseq_linformer.finetuning.grid import middle_run, settings, table
from fairseq_linformer.finetuning.run import headline
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
