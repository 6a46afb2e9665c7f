"""The best setting of a grid, also in words, and the run of its median."""

from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.training.ranking import format_table, median_run, rank_settings


def result(lr, seed, accuracy):
    scores = {"accuracy": {"value": accuracy}}
    recipe = {"lr": lr, "batch_size": 32, "seed": seed}
    return {"task": "sst-2", "splits": {"valid": {"scores": scores}}, "recipe": recipe}


RUNS = [
    result(lr, seed, accuracy)
    for lr, accuracies in ((1e-5, (0.91, 0.93, 0.90)), (2e-5, (0.94, 0.89, 0.92)))
    for seed, accuracy in enumerate(accuracies, 1)
]


def test_best_setting_by_median_over_seeds():
    task = TASKS["sst-2"]
    assert rank_settings(task, RUNS[::-1]) == [RUNS[3:], RUNS[:3]]
    output = format_table(task, [RUNS[3:], RUNS[:3]])
    assert output[1].split() == ["2e-05", "32", "3", "92.00", "89.00", "to", "94.00"]
    assert output[-1].startswith("sst-2: accuracy 92.00 %, median over 3 seeds, lr 2e-05, batch size 32")
    tied = [result(2e-5, 1, 0.9), result(1e-5, 1, 0.9)]
    assert rank_settings(task, tied) == [tied[1:], tied[:1]]


def test_median_run():
    assert median_run(TASKS["sst-2"], RUNS) == RUNS[5]
    assert median_run(TASKS["sst-2"], RUNS[:2]) == RUNS[0]  # the worse of two
