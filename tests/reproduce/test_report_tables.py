"""What stands in which table and section of the report."""

import csv
import dataclasses
import re
from pathlib import Path
from statistics import mean

import pytest

from fairseq_linformer.reproduce import ledger, paper, report
from fairseq_linformer.reproduce.claims import CLAIMS
from fairseq_linformer.reproduce.ledger import Measurement
from fairseq_linformer.reproduce.report import figures, of_models, of_paper, told
from fairseq_linformer.reproduce.report.drawing import draw

from .test_ledger import entry
from .test_report import trained


def finetuned(name, row, middle, experiment="table-2", scale="cpu"):
    model = {"max_positions": 512, "projected_dim": "256", "sharing": "headwise", "from_scratch": False}
    score = {"valid accuracy": Measurement(middle, "%", [middle - 1, middle + 1.5], 3), "valid f1": Measurement(0.75, "1", [0.7, 0.8], 3),
             "valid majority": Measurement(50.9, "%", None, 1)}  # fmt: skip
    task = name.split("_")[0]
    return entry(identifier=f"finetuning-{task}-{experiment}-{scale}", scale=scale, measured=score, paper={"value": 93.2, "where": f"Table 2, {row}; base size"},
                 claim=f"{task}: Linformer {name}; scores of the best epoch", configuration={"experiment": experiment, "task": task, "model": model})  # fmt: skip


def test_table_2_has_columns_of_each_scale_and_only_its_own_entries(tmp_path):
    row = "512, Linformer, 256"
    ours = [finetuned("sst-2", row, 80.0), finetuned("sst-2", row, 92.0, scale="gpu")]
    before = finetuned("qnli", row, 60.0, experiment="before")
    for one in (*ours, before):
        ledger.write(one, tmp_path)
    page, text, _ = (path.read_text() for path in report.write(tmp_path, tmp_path / "report.html"))
    assert "| n, model, k | sst-2 (paper) | sst-2, gpu | sst-2, cpu | imdb (paper) |" in text
    assert "| 512, Linformer, 256 | 93.2 | 92.0 (91.0 to 93.5), -1.2 | 80.0 (79.0 to 81.5), -13.2 | 94.0 | **not measured** |" in text
    assert "| 92.08 | **not measured** | **not measured** |" in text
    assert "| sst-2 | Linformer sst-2 | 80.00 | 79.00 to 81.50 | 3 | 0.750 | 50.90 |" in text
    section = page[page.index('<section id="table-2">') : page.index('<section id="table-3">')]
    whole, earlier = section.split("Earlier measurements of the same thing")
    assert "finetuning-qnli-before-cpu" in earlier and "Linformer qnli" in earlier and "qnli-before" not in whole and "Linformer qnli" not in whole


def test_the_mean_of_table_2_is_that_of_all_tasks():
    row = "512, Linformer, 256"
    found = [finetuned(task, row, middle) for task, middle in (("sst-2", 80.0), ("imdb", 70.0), ("qnli", 60.0), ("qqp", 90.0))]
    line = next(cells for cells in of_paper.table_2(found)[0].rows if cells[0] == row)
    assert line[-2:] == ["92.08", "75.00 (74.00 to 76.50), -17.08"]


def test_the_mean_of_one_seed_has_no_range():
    row = "512, Linformer, 256"
    one_seed = [dataclasses.replace(one, measured={**one.measured, "valid accuracy": Measurement(75.0, "%", None, 1)})
                for one in (finetuned(task, row, 75.0) for task in ("sst-2", "imdb", "qnli", "qqp"))]  # fmt: skip
    (found,) = of_paper.found_of(paper.CELLS["table-2-512-linformer-256-average"], one_seed)
    assert found.measured == Measurement(75.0, "%", None, 1)


def test_every_cell_and_claim_of_the_paper_is_in_one_file_and_in_the_page(tmp_path):
    row = "512, Linformer, 256"
    tasks = (("sst-2", 80.0), ("imdb", 70.0), ("qnli", 60.0), ("qqp", 90.0))
    times = {"n=512 k=128: eager / linformer": Measurement(1.25, "1", [1.2, 1.3], 3)}
    power = {"bigbird: exponent of the longer half": Measurement(0.1, "1", None, 1)}
    inference = {"scale": "cpu", "measured": times, "configuration": {"cells": {"a": {"n": 512}}, "layers": 2}}
    scaling = {"scale": "cpu", "measured": power, "configuration": {"cells": {}, "models": ["bigbird"]}}
    found = [*(finetuned(task, row, middle) for task, middle in tasks), entry(identifier="benchmark-scaling-cpu-fp32-l2", **scaling),
             *(entry(identifier=f"benchmark-inference-cpu-fp32-l{layers}", **inference) for layers in (2, 1))]  # fmt: skip
    for one in found:
        ledger.write(one, tmp_path)
    page, _, listing = (path.read_text() for path in report.write(tmp_path, tmp_path / "report.html"))
    lines = list(csv.DictReader(listing.splitlines()))
    assert {line["identifier"] for line in lines} == set(paper.CELLS) | set(CLAIMS) and not set(paper.CELLS) & set(CLAIMS)
    assert {line["experiment"] for line in lines} == {claim.experiment for claim in CLAIMS.values()}
    assert all(len(re.findall(f'<td id="{name}"', page)) == 1 for name in paper.CELLS)
    told = {(line["identifier"], line["entries"]): [line[name] for name in ("paper", "scale", "model", "ours", "unit", "lowest", "highest")] for line in lines}
    assert told["table-3-time-n-512-k-128", "benchmark-inference-cpu-fp32-l2"] == ["1.5", "cpu", "", "1.25", "times", "1.2", "1.3"]
    assert told["table-1-sparse-per-layer", "benchmark-scaling-cpu-fp32-l2"] == ["O(n sqrt(n))", "cpu", "bigbird", "1.1", "exponent of n", "", ""]
    assert told["table-2-512-linformer-256-average", " ".join(one.identifier for one in found[:4])] == ["92.08", "cpu", "", "75", "%", "74", "76.5"]
    assert told["table-3-memory-n-512-k-128", ""] == ["1.7", "", "", "not measured", "", "", ""]


def test_a_claim_that_was_judged_of_another_n_says_it_beside_its_scale(tmp_path):
    ledger.write(dataclasses.replace(trained(roberta=5.0), configuration={**RUNS, "n": 64}), tmp_path)
    listing = report.write(tmp_path, tmp_path / "report.html")[2].read_text()
    (line,) = (line for line in csv.DictReader(listing.splitlines()) if line["identifier"] == "figure-3a")
    assert (line["scale"], line["n"], line["ours"]) == ("cpu", "64", "not enough evidence")


def test_the_numbers_of_the_paper_that_are_printed_are_all_cells():
    printed = [*(v for row in paper.TABLE_1.values() for v in (row.per_layer, row.sequential)), *(v for row in paper.TABLE_2.values() for v in row.values()),
               *paper.TABLE_2_AVERAGE.values(), *(v for half in (paper.TABLE_3_TIME, paper.TABLE_3_MEMORY) for row in half.values() for v in row)]  # fmt: skip
    assert sorted(map(str, printed)) == sorted(str(cell.printed) for cell in paper.CELLS.values())
    assert paper.CELLS["table-2-1024-linformer-256-shared-kv-layer-imdb"].printed == 94.2 and paper.CELLS["table-3-memory-n-65536-k-2048"].printed == 18


@pytest.mark.parametrize("row", paper.TABLE_2)
def test_averages_as_printed_are_means_of_their_rows(row):
    assert abs(paper.TABLE_2_AVERAGE[row] - mean(paper.TABLE_2[row].values())) < 0.006


def test_two_entries_of_a_figure_have_charts_of_their_own(tmp_path):
    cell = {f"heads = random; n = 128; k = {k}; eps = 0.5; theorem": Measurement(p, "probability", None, 1) for k, p in ((256, 0.95), (512, 1.0))}
    rows = {f"heads = random; n = 128; d = 64; k = {k}; X = F = 0; spectral within eps": Measurement(0.5, "share", None, 1) for k in (64, 98)}
    heads = {f"run = RoBERTa, n = 64, w; layer = {layer}; head = 1; cumulative value at the index": Measurement(0.8, "share", None, 1) for layer in (1, 2)}
    curve = {"run = RoBERTa, n = 64, w; layer = 1; curve, mean over heads": [[16, 0.8], [64, 1.0]]}
    runs = {"runs": {"RoBERTa, n = 64, w": {"n": 64, "index": 16, "singular_values": 64}}}
    for name, experiment in (("theorem-1", None), ("theorem-1-cpu", "theorem-1")):
        ledger.write(entry(identifier=name, scale="cpu", measured=cell, configuration={"experiment": experiment}), tmp_path)
    for name in ("theorem-2", "theorem-2-cpu"):
        ledger.write(entry(identifier=name, scale="cpu", measured=rows), tmp_path)
    for name in ("spectrum-roberta", "spectrum-roberta-more"):
        ledger.write(entry(identifier=name, scale="cpu", measured=heads, configuration=runs, curves=curve), tmp_path)
    html = report.write(tmp_path, tmp_path / "report.html")[0].read_text()
    drawn = re.findall(r'<figure id="([^"]+)"', html)  # and the two of Table 3, which the paper prints
    assert len(drawn) == 8 + 2 and len(re.findall(r'\bid="([^"]+)"', html)) == len(set(re.findall(r'\bid="([^"]+)"', html)))


def test_no_verdict_of_the_smoke_scale():
    one = dataclasses.replace(trained("figure-3a-smoke", roberta=5.0, **{"k=32": 5.1, "k=16": 5.5}), scale="smoke")
    assert CLAIMS["figure-3a"].judge([one], "smoke").outcome == "holds"  # which the command may tell
    section = next(s for s in told.sections([one], CLAIMS.values()) if s.experiment == "figure-3a")
    assert all(j.outcome == "**not measured**" for j in section.claims) and not section.entries and not section.charts


RESULTS = Path(__file__).parents[2] / "results"
RUNS = {"n": 64, "scale": {}, "experiment": "figure-3a"}


def run(updates, start=None, k=None, n=64):
    return {"model": {"n": n, **({"k": k} if k else {})}, "made": "x", "updates": updates, **({"from": start} if start else {})}


TRUNK = run(400, run(2000))


@pytest.mark.parametrize("runs, axis", [
    ({"roberta": run(500, TRUNK), "k=32": run(500, TRUNK, 32)}, "updates after the common RoBERTa of 2,400 updates"),
    ({"roberta": run(500, TRUNK), "n=128": run(500, run(800, run(1600), n=128), 32)}, "updates after a RoBERTa of 2,400 updates"),
    ({"roberta": run(500, TRUNK), "from scratch": run(500, run(2400, None, 32), 32)}, "updates after 2,400 of what each starts from"),
    ({"roberta": run(400, run(2000)), "from scratch": run(2800)}, "updates of the last stage"),
    ({"roberta": run(2000), "k=32": run(2000, None, 32)}, "updates, from scratch"),
])  # fmt: skip
def test_the_axis_of_a_curve_says_after_what(runs, axis):
    one = dataclasses.replace(trained(roberta=5.0), configuration={**RUNS, "runs": runs})
    (chart,) = figures.trained(one, "t")
    assert chart.x == axis and "a part of the validation split, in an order that depends on the seed" in chart.note
    assert ("Updates before it: roberta 2,000, from scratch 0." in chart.note) == (axis == "updates of the last stage")
    assert figures.trained(trained(roberta=5.0), "t")[0].note == ""  # an entry that does not say


def test_the_caption_is_on_the_page_and_in_the_tables(tmp_path):
    ledger.write(dataclasses.replace(trained(roberta=5.0), configuration={**RUNS, "runs": {"roberta": run(500, TRUNK)}}), tmp_path)
    for path in report.write(tmp_path, tmp_path / "report.html")[:2]:
        assert "tables' numbers are of all of it, with masks of one seed." in path.read_text().replace("&#x27;", "'")


def test_figure_3d_draws_each_n_beside_its_roberta():
    n = (64, 128, 256, 512, 1024)
    bits = {**{"roberta" + f" n={x}" * (x > 64): 4.8 for x in n}, **{f"n={x}": 5.0 for x in n}}
    one = trained("figure-3d-cpu", **bits)
    one.measured["plateau n=128: bits"] = Measurement(9.0, "bits", None, 1)
    (chart,) = figures.trained(one, "t")
    lines = {s.name: s for s in chart.series}
    assert len(lines) == 10 and lines["roberta n=256"].thin and not lines["n=256"].thin
    assert lines["roberta"].colour == lines["n=64"].colour and lines["roberta n=1024"].colour == lines["n=1024"].colour
    assert len({s.colour for s in chart.series}) == 5 and "<svg" in draw(chart)
    rows = {row[0]: row for row in of_models.trained(one)[0].rows}
    one.measured["roberta n=128: perplexity"] = Measurement(16.0, "perplexity", None, 1)
    again = {row[0]: row for row in of_models.trained(one)[0].rows}
    assert rows["n=128"][-1] == f"{2**0.2:.3f}" and again["n=128"][-1] == "2.000" and again["n=256"] == rows["n=256"]
    assert rows["without context"][1] == "256.00" and rows["without context, n=128"][1] == "512.00"


def test_levels_are_no_models():
    names = ("context_free_perplexity", "unigram_perplexity", "valid_context_free_perplexity", "roberta_perplexity", "headwise_perplexity")
    one = entry(measured={name: Measurement(10.0 * i, "perplexity", None, 1) for i, name in enumerate(names, 1)}, curves={"roberta": [[100, 5.0]]})
    (table,) = of_models.trained(one)
    assert [row[0] for row in table.rows] == ["roberta", "headwise", "without context", "by the frequency of each token alone", "without context, on the validation split"]
    assert table.rows[1][-1] == "1.250" and "held-out" in table.caption
    assert figures.trained(one, "t")[0].levels == [("without context: 30", 30.0)]  # of the split of the curves


def test_starts_have_the_window_averages_beside_them():
    names = told.BESIDE["starts"]
    found = [ledger.read(RESULTS / f"{name}.json") for name in names]
    rows = [row[0] for one in found for row in of_models.trained(one)[0].rows]
    assert "n=512 k=256 headwise, average" in rows and "n=512 k=256 headwise, normal at the full rate" in rows


@pytest.mark.parametrize("name", ["operations-cpu", "parameters-cpu"])
def test_every_number_that_is_counted_is_in_a_table(name):
    one = entry(identifier=name, scale="cpu", measured={"none: matrices": Measurement(288.0, "matrices", None, 1), "n=512: linformer": Measurement(14155776.5, "operations a token", None, 1)})
    (table,) = of_paper.of_experiment(name.removesuffix("-cpu"), [one])
    assert table.rows == [["none: matrices", "288", "matrices"], ["n=512: linformer", "14,155,776.5", "operations a token"]]
