"""Scores against scikit-learn and numbers that can be worked out by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from fairseq_linformer.evaluation import scores

# Four rows, the third is wrong.
TARGETS = [1, 0, 1, 0]
PROBABILITIES = np.array([[0.05, 0.95], [0.85, 0.15], [0.75, 0.25], [0.65, 0.35]])


def test_by_hand():
    found = scores.of_classes(TARGETS, PROBABILITIES)
    assert found.rows == 4 and found.majority == 0.5 and found.confusion == [[2, 0], [1, 1]]
    assert found.scores["accuracy"].value == 0.75 and found.scores["f1"].value == pytest.approx(2 / 3)
    calibration = found.calibration
    # Bins 0.6, 0.7, 0.8 and 0.9 with a row each: |0.65 - 1|, |0.75 - 0|, |0.85 - 1|, |0.95 - 1|.
    assert calibration.expected_error == pytest.approx((0.35 + 0.75 + 0.15 + 0.05) / 4)
    assert calibration.negative_log_likelihood == pytest.approx(-np.log([0.95, 0.85, 0.25, 0.65]).mean())
    assert calibration.brier == pytest.approx(2 * (0.05**2 + 0.15**2 + 0.75**2 + 0.35**2) / 4)
    assert [b.rows for b in calibration.bins] == [0] * 6 + [1] * 4


def test_the_interval_of_the_accuracy_is_wilsons():
    n, p, z = 872, 800 / 872, stats.norm.ppf(0.975)
    probabilities = np.array([[1, 0]] * 800 + [[0, 1]] * 72)
    found = scores.of_classes([0] * 872, probabilities).scores["accuracy"].interval
    middle, half = (p + z**2 / 2 / n) / (1 + z**2 / n), z * np.sqrt(p * (1 - p) / n + z**2 / 4 / n**2) / (1 + z**2 / n)
    assert found == pytest.approx((middle - half, middle + half))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_f1_and_matthews_are_scikit_learns(classes):
    rng = np.random.default_rng(classes)
    targets, guesses = rng.integers(0, classes, (2, 60))
    targets[: classes] = range(classes)
    found = scores.of_classes(targets, np.eye(classes)[guesses]).scores
    assert found["f1"].value == pytest.approx(metrics.f1_score(targets, guesses, average="binary" if classes == 2 else "macro"))
    assert found["matthews"].value == pytest.approx(metrics.matthews_corrcoef(targets, guesses))


def test_the_bootstrap_is_that_of_rows():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, 80)
    guesses = np.where(rng.random(80) < 0.75, targets, 1 - targets)
    rows = rng.integers(0, 80, (2000, 80))
    drawn = 2 * (targets & guesses)[rows].sum(1) / (targets[rows] + guesses[rows]).sum(1)  # F1: 2 TP / (2 TP + FP + FN)
    found = scores.of_classes(targets, np.eye(2)[guesses]).scores["f1"].interval
    assert found == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])), abs=0.02)


def test_a_class_that_never_comes_counts_nothing():
    found = scores.of_classes([0, 0], np.eye(3)[[0, 0]]).scores
    assert found["matthews"].value == 0 and found["f1"].value == pytest.approx(1 / 3)


def test_correlations():
    rng = np.random.default_rng(1)
    targets = rng.random(30)
    predictions = targets + 0.3 * rng.random(30)
    found = scores.of_scores(targets, predictions).scores
    assert found["pearson"].value == pytest.approx(stats.pearsonr(targets, predictions).statistic)
    assert found["spearman"].value == pytest.approx(stats.spearmanr(targets, predictions).statistic)
    assert found["pearson"].interval[0] < found["pearson"].value < found["pearson"].interval[1] < 1


@pytest.mark.parametrize("score, said", [
    (lambda: scores.of_classes([], np.zeros((0, 2))), "no rows"),
    (lambda: scores.of_scores([1, 1, 1, 1], [1, 2, 3, 4]), "all 4 rows are 1"),
    (lambda: scores.of_scores([1, 2, 3], [1, 2, 3]), "3 rows.*four"),
])  # fmt: skip
def test_what_cannot_be_scored_is_said(score, said):
    with pytest.raises(ValueError, match=said):
        score()


def test_a_model_that_gives_one_score_to_all_has_none():
    assert scores.of_scores([1, 2, 3, 4], [2, 2, 2, 2]).scores["spearman"] == scores.Score(0.0, (-1.0, 1.0))


def test_the_report_names_all_of_it():
    said = " ".join(" ".join(scores.table(scores.of_classes(TARGETS, PROBABILITIES), ["bad", "good"])).split())
    for words in ("4 rows", "50.0 %", "accuracy 75.00 % 95 % interval 30.06 to 95.44", "f1 0.6667", "bad good bad 2 0 good 1 1",
                  "error 0.3250", "0.9 to 1.0 1 0.950 1.000"):  # fmt: skip
        assert words in said


def test_many_classes_are_drawn_in_parts(monkeypatch):
    rng = np.random.default_rng(2)
    targets, probabilities = rng.integers(0, 5, 60), rng.random((60, 5))
    whole = scores.of_classes(targets, probabilities).scores
    monkeypatch.setattr(scores, "_CELLS", 25 * 999)  # a last part that is shorter
    assert scores.of_classes(targets, probabilities).scores == whole
