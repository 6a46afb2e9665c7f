"""The paper's tables as data, and what a report says of measurements that are missing, equal or too large to make."""

import pytest

from fairseq_linformer.reproduce import benchmark_report, paper
from fairseq_linformer.reproduce.ledger import Measurement

from .test_ledger import entry


def test_table_3_of_the_paper():
    """Cells as section 5.3 quotes them, and as the table must be: a k below n, more saved for smaller k and longer n."""
    assert paper.table_3(paper.TABLE_3_TIME, 512, 128) == 1.5 and paper.table_3(paper.TABLE_3_MEMORY, 512, 128) == 1.7
    for half in (paper.TABLE_3_TIME, paper.TABLE_3_MEMORY):
        for n, row in half.items():
            assert len(row) == sum(k < n for k in paper.TABLE_3_DIMENSIONS) and list(row) == sorted(row, reverse=True)
        for column in range(2):
            assert [row[column] for row in half.values()] == sorted(row[column] for row in half.values())
    assert paper.table_3(paper.TABLE_3_TIME, 512, 512) is None and paper.table_3(paper.TABLE_3_TIME, 100, 128) is None
    assert paper.TABLE_1["linformer"].per_layer == "O(n)"


@pytest.mark.parametrize("m, told", [
    (None, "not measured"),
    (Measurement(2.0, "ratio of times", [1.5, 3.0], 3), "2 [1.5, 3]"),
    (Measurement(1.1, "ratio of times", [0.9, 1.2], 3), "equal, 1.1 [0.9, 1.2]"),
    (Measurement(1.1, "ratio of batches", None, 1), "1.1"),
])  # fmt: skip
def test_what_is_told(m, told):
    assert benchmark_report.told(m) == told


def test_a_transformer_that_does_not_fit_is_not_a_number():
    measured = {
        "n=65536 k=128: eager / linformer, bytes a sentence": Measurement(90.0, "ratio of bytes", None, 1),
        "n=512 k=128: eager / linformer": Measurement(1.7, "ratio of times", [1.6, 1.8], 3),
        "n=512: seconds of eager": Measurement(1.0, "s", [0.9, 1.1], 3),
    }
    told = benchmark_report.text([entry(identifier="benchmark-inference-cpu-fp32-l12", measured=measured, configuration={"layers": 12, "cells": {}})])
    assert "| 512 | 1.7 [1.6, 1.8] (1.5) | not measured (1.3) |" in told
    assert "| 65,536 | does not fit (20) | not measured (18)" in told and "| does not fit; 90 x the bytes (60) |" in told.replace("65,536 ", "")


def test_bars_are_kept_or_missed():
    bars = {"pretraining n=512: authors / ours": 1.2, "finetuning n=32: roberta / ours": 0.8}
    measured = {name: Measurement(x, "ratio of times", None, 1) for name, x in bars.items()}
    told = benchmark_report.text([entry(identifier="benchmark-training-cpu-fp32-l12", measured=measured,
                                        configuration={"layers": 12, "cells": {}})])  # fmt: skip
    assert "| at least 1.12 | 1.2 | kept |" in told and "| at least 0.91 | 0.8 | missed |" in told and told.count("| not measured |  |") == 5
