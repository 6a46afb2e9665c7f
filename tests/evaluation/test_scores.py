"""Scores against scikit-learn, SciPy and closed forms."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from fairseq_linformer.evaluation.evaluate import find_positive_class
from fairseq_linformer.evaluation.scores import format_scores, score_classes, score_regression, warn_of_chance

# Four rows; the third prediction is wrong.
TARGETS = [1, 0, 1, 0]
PREDICTIONS = [1, 0, 0, 0]


def test_f1_is_that_of_the_positive_class_in_any_order():
    rng = np.random.default_rng(0)
    targets, guesses = rng.integers(0, 2, (2, 60))
    ours = score_classes(targets, guesses, 2)["scores"]
    swapped = score_classes(1 - targets, 1 - guesses, 2, positive=0)["scores"]
    assert swapped == ours


@pytest.mark.parametrize(
    "names, positive",
    [(["1", "0"], 0), (["LABEL_1", "LABEL_0"], 0), (["not_entailment", "entailment"], 0), (["yes", "no"], 1)],
)
def test_positive_class(names, positive):
    assert find_positive_class(names) == positive


@pytest.mark.parametrize("name, classes", [("f1", 2), ("matthews", 3)])
def test_intervals_equal_those_of_resampled_rows(name, classes):
    rng = np.random.default_rng(0)
    targets = rng.integers(0, classes, 300)
    guesses = np.where(rng.random(300) < 0.7, targets, rng.integers(0, classes, 300))
    f1 = partial(metrics.f1_score, average="binary" if classes == 2 else "macro")
    metric = {"f1": f1, "matthews": metrics.matthews_corrcoef}[name]
    values = [metric(targets[rows], guesses[rows]) for rows in rng.integers(0, 300, (200, 300))]
    low, high = score_classes(targets, guesses, classes)["scores"][name]["interval"]
    assert high - low == pytest.approx(2 * stats.norm.ppf(0.975) * np.std(values), rel=0.15)


@pytest.mark.parametrize("classes", [2, 4])
def test_values_are_those_of_rows_and_intervals_those_of_the_jackknife(classes):
    rng = np.random.default_rng(classes)
    targets, guesses = rng.integers(0, classes, (2, 40))
    targets[:classes], guesses[0] = range(classes), classes - 1  # class 0 is left when a row is removed
    f1 = partial(metrics.f1_score, average="binary" if classes == 2 else "macro", zero_division=0)
    for name, metric in (("f1", f1), ("matthews", metrics.matthews_corrcoef)):
        without = [metric(np.delete(targets, i), np.delete(guesses, i)) for i in range(40)]
        half = stats.norm.ppf(0.975) * np.sqrt(39) * np.std(without)
        score = score_classes(targets, guesses, classes)["scores"][name]
        assert score["value"] == pytest.approx(metric(targets, guesses))
        assert score["interval"] == pytest.approx([score["value"] - half, score["value"] + half])


@pytest.mark.parametrize(
    "right, rows, majority, warns",
    [(80, 100, 60, False), (65, 100, 60, True), (60, 100, 60, True), (20, 100, 60, True), (99, 100, 100, False)],
)
def test_warning_of_chance(right, rows, majority, warns):
    """80 of 100 have the interval from 71 to 87 %, 65 of 100 that from 55 to 74 %."""
    targets = [0] * majority + [1] * (rows - majority)
    guesses = [target if i < right else 1 - target for i, target in enumerate(targets)]
    scores = score_classes(targets, guesses, 2)
    expected = f"warning: always predicting the most frequent label, with {majority:.1f} %, may be as accurate"
    assert warn_of_chance(scores) == [expected] * warns
    assert (expected in format_scores(scores, ["a", "b"])) == warns


@pytest.mark.parametrize(
    "targets, guesses, expected",
    [
        ([0, 1, 1, 0], [0, 1, 0, 0], (2 / 3 + 4 / 5) / 2),  # classes 2 and 3 are neither labels nor predictions
        ([0, 1, 1, 0], [0, 1, 2, 0], (1 + 2 / 3 + 0) / 3),  # class 2 is predicted
        ([0, 3, 3, 0], [0, 0, 0, 0], (2 / 3 + 0) / 2),  # class 3 is not predicted
        ([2, 2], [2, 2], 1),
    ],
)
def test_macro_f1_is_over_classes_that_occur(targets, guesses, expected):
    """As in scikit-learn."""
    result = score_classes(targets, guesses, 4)["scores"]["f1"]
    assert result["value"] == pytest.approx(expected)
    assert result["value"] == pytest.approx(metrics.f1_score(targets, guesses, average="macro", zero_division=0))


def test_constant_labels_or_predictions_have_no_matthews_correlation():
    for targets, predictions in (([0, 1], [0, 0]), ([0, 0], [0, 1])):
        scores = score_classes(targets, predictions, 3)["scores"]
        assert scores["matthews"] == {"value": 0, "interval": [-1, 1]}


def test_one_row_says_nothing_about_f1():
    scores = score_classes([1], [1], 2)["scores"]
    assert scores["f1"] == {"value": 1, "interval": [0, 1]} and scores["matthews"]["interval"] == [-1, 1]


def test_correlations_equal_scipys():
    rng = np.random.default_rng(1)
    targets = rng.random(30)
    predictions = targets + 0.3 * rng.random(30)
    result = score_regression(targets, predictions)["scores"]
    assert result["pearson"]["value"] == pytest.approx(stats.pearsonr(targets, predictions).statistic)
    assert result["spearman"]["value"] == pytest.approx(stats.spearmanr(targets, predictions).statistic)
    low, high = result["pearson"]["interval"]
    assert low < result["pearson"]["value"] < high < 1


@pytest.mark.parametrize("targets, predictions", [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([1], [2])])
def test_constant_labels_or_predictions_have_correlation_0(targets, predictions):
    assert score_regression(targets, predictions)["scores"]["spearman"] == {"value": 0, "interval": [-1, 1]}


@pytest.mark.parametrize(
    "names, title", [(["bad", "good"], "f1 of good 0.6667"), (["bad", "good", "best"], "macro f1 0.7333")]
)
def test_report_has_all_scores(names, title):
    report = " ".join(" ".join(format_scores(score_classes(TARGETS, PREDICTIONS, len(names)), names)).split())
    parts = ("4 labeled rows", "50.0 %", "accuracy 75.00 % 95 % interval 30.06 to 95.44", "bad 2 0")
    for part in (*parts, title):
        assert part in report
