"""Scores against scikit-learn, SciPy and closed forms."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from fairseq_linformer.evaluation import scores
from fairseq_linformer.evaluation.evaluate import find_positive_class

# Four rows; the third prediction is wrong.
TARGETS = [1, 0, 1, 0]
PROBABILITIES = np.array([[0.05, 0.95], [0.85, 0.15], [0.75, 0.25], [0.65, 0.35]])


def test_scores_of_four_rows():
    result = scores.score_classes(TARGETS, PROBABILITIES)
    assert result.rows == 4 and result.majority == 0.5 and result.confusion == [[2, 0], [1, 1]]
    assert result.scores["accuracy"].value == 0.75 and result.scores["f1"].value == pytest.approx(2 / 3)
    calibration = result.calibration
    # Bins 0.6, 0.7, 0.8 and 0.9 have one row each: |0.65 - 1|, |0.75 - 0|, |0.85 - 1|, |0.95 - 1|.
    assert calibration.expected_error == pytest.approx((0.35 + 0.75 + 0.15 + 0.05) / 4)
    assert calibration.negative_log_likelihood == pytest.approx(-np.log([0.95, 0.85, 0.25, 0.65]).mean())
    assert calibration.brier == pytest.approx(2 * (0.05**2 + 0.15**2 + 0.75**2 + 0.35**2) / 4)
    assert [b.rows for b in calibration.bins] == [0] * 6 + [1] * 4


def test_interval_of_accuracy_is_wilsons():
    n, p, z = 872, 800 / 872, stats.norm.ppf(0.975)
    probabilities = np.array([[1, 0]] * 800 + [[0, 1]] * 72)
    result = scores.score_classes([0] * 872, probabilities).scores["accuracy"].interval
    middle, half = (p + z**2 / 2 / n) / (1 + z**2 / n), z * np.sqrt(p * (1 - p) / n + z**2 / 4 / n**2) / (1 + z**2 / n)
    assert result == pytest.approx((middle - half, middle + half))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_f1_and_matthews_equal_scikit_learns(classes):
    rng = np.random.default_rng(classes)
    targets, guesses = rng.integers(0, classes, (2, 60))
    targets[:classes] = range(classes)
    result = scores.score_classes(targets, np.eye(classes)[guesses]).scores
    assert result["f1"].value == pytest.approx(
        metrics.f1_score(targets, guesses, average="binary" if classes == 2 else "macro")
    )
    assert result["matthews"].value == pytest.approx(metrics.matthews_corrcoef(targets, guesses))


def test_f1_is_that_of_the_positive_class_in_any_order():
    rng = np.random.default_rng(0)
    targets, guesses = rng.integers(0, 2, (2, 60))
    ours = scores.score_classes(targets, np.eye(2)[guesses]).scores
    swapped = scores.score_classes(1 - targets, np.eye(2)[1 - guesses], positive=0).scores
    assert swapped == ours


@pytest.mark.parametrize(
    "names, positive",
    [
        (["0", "1"], 1),
        (["1", "0"], 0),
        (["LABEL_1", "LABEL_0"], 0),
        (["entailment", "not_entailment"], 1),
        (["not_entailment", "entailment"], 0),
        (["yes", "no"], 1),
        (["a", "b", "c"], 1),
    ],
)
def test_positive_class(names, positive):
    assert find_positive_class(names) == positive


def test_bootstrap_equals_resampling_rows():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, 80)
    guesses = np.where(rng.random(80) < 0.75, targets, 1 - targets)
    rows = rng.integers(0, 80, (2000, 80))
    f1 = 2 * (targets & guesses)[rows].sum(1) / (targets[rows] + guesses[rows]).sum(1)  # 2 TP / (2 TP + FP + FN)
    interval = scores.score_classes(targets, np.eye(2)[guesses]).scores["f1"].interval
    assert interval == pytest.approx(tuple(np.percentile(f1, [2.5, 97.5])), abs=0.02)


def test_unused_class_has_f1_0():
    result = scores.score_classes([0, 0], np.eye(3)[[0, 0]]).scores
    assert result["matthews"].value == 0 and result["f1"].value == pytest.approx(1 / 3)


def test_correlations_equal_scipys():
    rng = np.random.default_rng(1)
    targets = rng.random(30)
    predictions = targets + 0.3 * rng.random(30)
    result = scores.score_regression(targets, predictions).scores
    assert result["pearson"].value == pytest.approx(stats.pearsonr(targets, predictions).statistic)
    assert result["spearman"].value == pytest.approx(stats.spearmanr(targets, predictions).statistic)
    assert result["pearson"].interval[0] < result["pearson"].value < result["pearson"].interval[1] < 1


@pytest.mark.parametrize(
    "score, message",
    [
        (lambda: scores.score_classes([], np.zeros((0, 2))), "at least one .* 0"),
        (lambda: scores.score_regression([1, 1, 1, 1], [1, 2, 3, 4]), "got 1 in all 4 rows"),
        (lambda: scores.score_regression([1, 2, 3], [1, 2, 3]), "at least four .* 3"),
    ],
)
def test_rejected_rows(score, message):
    with pytest.raises(ValueError, match=message):
        score()


def test_constant_predictions_have_correlation_0():
    assert scores.score_regression([1, 2, 3, 4], [2, 2, 2, 2]).scores["spearman"] == scores.Score(0.0, (-1.0, 1.0))


def test_report_has_all_scores():
    report = " ".join(
        " ".join(scores.format_scores(scores.score_classes(TARGETS, PROBABILITIES), ["bad", "good"])).split()
    )
    for part in (
        "4 labeled rows",
        "50.0 %",
        "accuracy 75.00 % 95 % interval 30.06 to 95.44",
        "f1 0.6667",
        "bad good bad 2 0 good 1 1",
        "error 0.3250",
        "0.9 to 1.0 1 0.950 1.000",
    ):
        assert part in report


def test_bootstrap_in_chunks_gives_the_same_result(monkeypatch):
    rng = np.random.default_rng(2)
    targets, probabilities = rng.integers(0, 5, 60), rng.random((60, 5))
    expected = scores.score_classes(targets, probabilities).scores
    monkeypatch.setattr(scores, "_CELLS", 25 * 999)  # the last chunk is shorter
    assert scores.score_classes(targets, probabilities).scores == expected
