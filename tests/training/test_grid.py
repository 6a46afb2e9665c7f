"""The best setting of a grid, and the run of its median; result files."""

import json

import pytest

from fairseq_linformer.task_data.tasks import TASKS
from fairseq_linformer.training.grid import format_table, median_run, rank_settings
from fairseq_linformer.training.single_run import format_headline, read_result

PRETRAINING = {"cfg": {"model": {"encoder_layers": 12, "encoder_embed_dim": 768}}, "num_updates": 250000}


def result(
    lr,
    seed,
    accuracy,
    task="sst-2",
    sharing="layerwise",
    k="256",
    name="checkpoint_last.pt",
    pretraining=PRETRAINING,
    projection="linear",
    from_scratch=False,
):
    scores = {
        name: {"value": accuracy, "interval": [accuracy - 0.01, accuracy + 0.01]}
        for name in ("accuracy", "f1", "matthews")
    }
    return {
        "task": task,
        "splits": {"valid": {"rows": 872, "scores": scores, "majority": 0.509}},
        "seconds": 3.0,
        "data": "of a test",
        "commit": "abc",
        "date": "2026-01-01",
        "hardware": {"processor": "x", "cores": 2},
        "versions": {"python": "3"},
        "model": {
            "checkpoint": name,
            "max_positions": 512,
            "projected_dim": k,
            "sharing": sharing,
            "projection": projection,
            "from_scratch": from_scratch,
            "pretraining": pretraining,
        },
        "recipe": {"lr": lr, "batch_size": 32, "epochs": 10, "seed": seed, "overrides": [], "device": "cpu"},
    }


RUNS = [
    result(lr, seed, accuracy)
    for lr, accuracies in ((1e-5, (0.91, 0.93, 0.90)), (2e-5, (0.94, 0.89, 0.92)))
    for seed, accuracy in enumerate(accuracies, 1)
]


def test_best_setting_by_median_over_seeds():
    first, second = rank_settings(TASKS["sst-2"], RUNS[::-1])
    assert (first.lr, first.median, first.seeds, first.values) == (2e-5, 0.92, (1, 2, 3), (0.94, 0.89, 0.92))
    assert (second.lr, second.median) == (1e-5, 0.91)
    output = format_table(TASKS["sst-2"], [first, second])
    assert output[1].split() == ["2e-05", "32", "3", "92.00", "89.00", "to", "94.00"]
    assert output[-1].startswith("sst-2: accuracy 92.00 %, median over 3 seeds, lr 2e-05, batch size 32")


def test_median_run():
    assert median_run(TASKS["sst-2"], RUNS)["splits"]["valid"]["scores"]["accuracy"]["value"] == 0.92
    assert median_run(TASKS["sst-2"], RUNS[:2])["recipe"]["seed"] == 1  # the worse of two
    assert format_headline(result(1e-5, 1, 0.8, task="qqp")) == [
        "accuracy 80.00 % (79.00 to 81.00)",
        "f1 0.8000 (0.7900 to 0.8100)",
    ]
    assert format_headline(result(1e-5, 1, 0.8, task="cola"))[0].startswith("matthews 0.8000")


def test_a_damaged_result_is_rejected(tmp_path):
    path, found = tmp_path / "result.json", result(1e-5, 1, 0.9)
    path.write_text(json.dumps(found))
    assert read_result(path) == found
    path.write_text("{}")
    with pytest.raises(ValueError, match="result.json is damaged"):
        read_result(path)
