"""The paper's tables as data, and what a report says of measurements that are missing, equal or too large to make."""

import json
from pathlib import Path

import pytest

from fairseq_linformer.reproduce import benchmark_bars, benchmark_report, curves, ledger, paper
from fairseq_linformer.reproduce.benchmark_bars import BARS, CUDA_BARS
from fairseq_linformer.reproduce.benchmarks import entries, entry_with
from fairseq_linformer.reproduce.ledger import Measurement, hardware

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
    cells = {str(n): {"n": n, "dimensions": [128]} for n in (512, 65536)}
    told = benchmark_report.text([entry(identifier="benchmark-inference-cpu-fp32-l12", measured=measured, configuration={"layers": 12, "cells": cells})])
    assert "| 512 | 1.7 [1.6, 1.8] (1.5) | not measured (1.3) |" in told
    assert "| 65,536 | does not fit (20) | not measured (18)" in told and "| does not fit; 90 x the bytes (60) |" in told.replace("65,536 ", "")


def numbers(**values):
    return {name: Measurement(x, "ratio of times", None, 1) for name, x in values.items()}


def test_bars_are_kept_or_missed():
    bars = {"pretraining n=512: authors / ours": 1.2, "finetuning n=32: roberta / ours": 0.8}
    plain = entry(identifier="benchmark-training-cpu-fp32-l12", measured=numbers(**bars), configuration={"layers": 12, "threads": 2, "cells": {}})
    told = benchmark_report.text([plain])
    assert "| at least 1.12 | 1.2 | kept | 12 layers, 2 threads |" in told and "| at least 0.91 | 0.8 | missed | 12 layers, 2 threads |" in told
    assert told.count("| not measured |  |  |") == len(BARS) - 2 + len(CUDA_BARS) + 2


def test_a_bar_is_not_judged_on_a_variant():
    """One that is measured with other options sorts before the plain one, and one of its layers is not its."""
    bars = {"pretraining n=512: authors / ours": 9.0}
    others = [entry(identifier=f"benchmark-training-cpu-fp32-{end}", measured=numbers(**bars), configuration={"layers": layers, "cells": {}})
              for end, layers in (("l12-bare", 12), ("l12-compile", 12), ("l2", 2), ("l120", 120))]  # fmt: skip
    assert entry_with(others, *bars, "benchmark-training-cpu-fp32-l12") is None
    assert entry_with(others, *bars, "benchmark-training-cpu-fp32").identifier == "benchmark-training-cpu-fp32-l120"
    assert "9 | kept" not in benchmark_report.text(others)


@pytest.mark.parametrize("other", [{"embed_dim": 64}, {"k": 128}])
def test_a_bar_is_not_judged_on_another_size(other):
    bars = {"pretraining n=512: authors / ours": 9.0}
    size = {"layers": 12, "threads": 2, "embed_dim": 768, "k": 256, "cells": {}}
    told = [benchmark_bars.lines([entry(identifier="benchmark-training-cpu-fp32-l12", measured=numbers(**bars), configuration=c)])
            for c in (size, {**size, **other})]  # fmt: skip
    assert ["| 9 | kept |" in "\n".join(said) for said in told] == [True, False]


def cell(n, seconds, peak, **configuration):
    shape = {"device": "cpu", "dtype": "fp32", "layers": 1, "n": n, "tokens": 64, "models": list(seconds), "classify": False, **configuration}
    kind = configuration.get("kind", "training")
    return {"name": f"{kind}-cpu-fp32-l1-n{n}", "configuration": shape, "clock": "wall", "threads": 1, "hardware": hardware(), "versions": {"python": "3"},
            "measured": {"seconds": seconds, "tokens": 64, "operations": dict.fromkeys(seconds, 1e9)}, "seconds": 1.0, "date": "2026-01-02",
            "commit": "abc", "command": "it", "peak_operations_per_second": peak, "peak_from": "a matrix product"}  # fmt: skip


def test_every_model_of_the_cells_is_told_and_the_best_peak(tmp_path):
    """Cells of one entry may have other models, and beside each a product was timed, which others on the machine can only make slower."""
    for c in (cell(32, {"ours": [0.5]}, 1e12), cell(64, {"ours": [0.5], "roberta": [1.0]}, 4e12)):
        (tmp_path / f"{c['name']}.json").write_text(json.dumps(c))
    (found,) = entries(tmp_path)
    assert found.configuration["models"] == ["ours", "roberta"]
    shares = [found.measured[f"pretraining n={n}: utilisation by ours"].value for n in (32, 64)]
    assert shares == 2 * [1e9 / 0.5 / 4e12]
    assert "utilisation is of 4e12 operations a second, from a matrix product" in benchmark_report.text([found])


def test_others_are_told_where_ours_had_no_room(tmp_path):
    found = cell(32, {"roberta": [1.0]}, 1e12, models=["ours", "roberta"], device="cuda")
    found["measured"].update(bytes={"roberta": 5}, failed={"ours": "out of memory"})
    (tmp_path / f"{found['name']}.json").write_text(json.dumps(found))
    (told,) = entries(tmp_path)
    assert list(told.measured) == ["pretraining n=32: bytes of roberta", "pretraining n=32: roberta", "pretraining n=32: utilisation by roberta"]
    assert "ours: out of memory" in benchmark_report.text([told])


def test_what_was_not_warmed_up_or_was_counted_is_told():
    cells = {"a": {"n": 512, "warm_up": 1}, "b": {"n": 32768, "warm_up": 0, "counted": ["eager", "sdpa"]}, "c": {"n": 65536, "warm_up": 0}}
    told = benchmark_report.text([entry(identifier="benchmark-training-cpu-fp32-l12", configuration={"layers": 12, "threads": 1, "cells": cells})])
    assert "Without a round to warm up: n = 32,768 and 65,536." in told
    assert "Bytes counted from tensors, where the GPU has no room to be asked: eager, sdpa at n = 32,768." in told


def test_times_of_a_token_at_other_numbers_of_tokens_are_no_curve(tmp_path):
    for c in (cell(32, {"fnet": [0.5]}, 1e12, kind="scaling"), cell(64, {"fnet": [0.5]}, 1e12, kind="scaling", tokens=128)):
        (tmp_path / f"{c['name']}.json").write_text(json.dumps(c))
    with pytest.raises(ValueError, match="scaling-cpu-fp32-l1-n64 and scaling-cpu-fp32-l1-n32 differ in tokens"):
        list(entries(tmp_path))


def gpu(measured, kind="inference-cuda-bf16-l12"):
    return entry(identifier=f"benchmark-{kind}", measured=measured, configuration={"layers": 12, "cells": {}}, scale="gpu",
                 hardware={**hardware(), "accelerators": ["a GPU"]})  # fmt: skip


def test_bars_of_a_gpu():
    """Each cell of Table 3 is counted once; where the Transformer does not fit, its bytes of a sentence stand for its batches."""
    measured = {f"n={n} k={k}: {base} / linformer{suffix}": x for half, suffix in ((paper.TABLE_3_TIME, ""), (paper.TABLE_3_MEMORY, ", largest batch"))
                for n, row in half.items() for k, x in zip(paper.TABLE_3_DIMENSIONS, row) for base in ("eager", "sdpa")}  # fmt: skip
    cells = sum(map(len, paper.TABLE_3_TIME.values()))
    said = benchmark_bars.lines([gpu(numbers(**measured))])
    assert any(f"| of {2 * cells} cells {2 * cells} at or above | kept | 12 layers, a GPU |" in line for line in said)
    assert any("| of 7 cells 7 ahead | kept |" in line for line in said)
    fewer = {**measured, "n=65536 k=128: eager / linformer, bytes a sentence": 61, "n=1024 k=128: sdpa / linformer": 1.0}
    del fewer["n=65536 k=128: eager / linformer"], fewer["n=65536 k=128: eager / linformer, largest batch"]
    said = benchmark_bars.lines([gpu(numbers(**fewer))])
    assert any(f"| of {2 * cells} cells {2 * cells - 1} at or above, 1 that do not fit | kept |" in line for line in said)
    assert any("| of 7 cells 6 ahead, 1 below | missed |" in line for line in said)
    del fewer["n=512 k=128: eager / linformer"]
    assert any("at or above, 1 that do not fit, 1 not measured |  |" in line for line in benchmark_bars.lines([gpu(numbers(**fewer))]))
    step = gpu(numbers(**{"pretraining n=512: authors / ours": 1.4, "pretraining n=512: utilisation by ours": 0.3}), "training-cuda-bf16-l12")
    said = "\n".join(benchmark_bars.lines([step]))
    assert "| at least 1.5 | 1.4 | missed | 12 layers, a GPU |" in said and "| stated | 0.3 | kept |" in said


def test_the_ledger_is_still_read():
    """An entry from before a cell told how its peak is known, and what failed."""
    old = Path(__file__).parents[2] / "results" / "benchmark-finetuning-cpu-fp32-l12.json"
    said = benchmark_report.text([ledger.read(old)])
    assert "| at least 2 | 2.6 [2.37, 2.62] | kept | 12 layers, 2 threads |" in said and "\n12 layers, 2 threads, width 768; wall clock.\n" in said


def test_table_1_side_by_side():
    names = {"linformer: exponent": 0.0, "linformer: exponent of the longer half": 0.04, "transformer-eager: exponent": 0.6}
    models = ["recurrent", "transformer-eager", "fnet", "linformer"]
    failed = {"scaling-cpu-fp32-l2-n512": {"bigbird": "ValueError: too short"}}
    told = benchmark_report.text([entry(identifier="benchmark-scaling-cpu-fp32-l2", measured=numbers(**names),
                                        configuration={"layers": 2, "models": models, "cells": {}, "failed": failed})])  # fmt: skip
    assert "| linformer | linformer | O(n) | 1.00 | 1.04 |" in told and "| transformer | transformer-eager | O(n^2) | 1.60 | not measured |" in told
    assert "| later | fnet | - | not measured | not measured |" in told and "- scaling-cpu-fp32-l2-n512: bigbird: ValueError: too short" in told


def test_the_training_figure_has_a_line_for_each_kind():
    measured = {f"{what} n={n}: ours": 1.0 for what, n in (("pretraining", 512), ("pretraining", 1024), ("finetuning", 32), ("finetuning", 64))}
    axes = curves.new_figure().subplots()
    configuration = {"models": ["ours"], "cells": {str(n): {"n": n} for n in (32, 64, 512, 1024)}}
    benchmark_report._draw_training(axes, entry(measured=numbers(**measured), configuration=configuration))
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[512, 1024], [32, 64]]
