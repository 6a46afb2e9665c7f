"""The tables of docs/quality.md are those of the committed records."""

from pathlib import Path
from statistics import fmean

import pytest

from fairseq_linformer.reproduction import records as ledger
from fairseq_linformer.reproduction.comparisons import perplexity_ratio
from fairseq_linformer.reproduction.experiments.local_window import K_DIVISORS, REACHES, label
from fairseq_linformer.reproduction.recall_runs import label as recall_label

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quality.md"


def ratios(record):
    """Perplexities relative to RoBERTa's, with their intervals: a row per k, a column per W."""
    n = record.find("perplexity", model="roberta").n
    lines = ["| k | W = 0 | W = 4 | W = 16 |", "|---|---|---|---|"]
    for k in (1, *(n // divisor for divisor in K_DIVISORS)):
        found = [perplexity_ratio(record, label(k, reach), "roberta") for reach in REACHES]
        cells = [f"{each.value:.3g} [{each.low:.3g}, {each.high:.3g}]" for each in found]
        name = "1" if k == 1 else f"{k} = n / {n // k}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def recalled(record):
    """Mean accuracies of the seeds in percent: a row per k, a column per W, and one for the authors' start."""

    def cell(model):
        found = [m.value for m in record.select("accuracy", model=model)]
        return f"{100 * fmean(found):.1f}" if found else ""

    (n,) = {m.n for m in record.select("accuracy")}
    lines = ["| k | W = 0 | W = 4 | W = 16 | W = 0, `normal` |", "|---|---|---|---|---|"]
    for k in (1, *(n // part for part in record.configuration["parts"])):
        cells = [cell(recall_label(k, reach, None)) for reach in REACHES] + [cell(recall_label(k, 0, "normal"))]
        lines.append(f"| {k} | {' | '.join(cells)} |")
    return lines


TABLES = {"conversion-cpu": ratios, "conversion-long-cpu": ratios, "local-window-cpu": ratios, "recall-cpu": recalled}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_the_records(name):
    found = PAGE.read_text().split(f"<!-- {name} begin -->\n")[1].split(f"<!-- {name} end -->")[0]
    assert found.splitlines() == TABLES[name](ledger.read(ROOT / "results" / f"{name}.json"))
