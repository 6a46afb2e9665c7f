"""Every number in the tables of docs/scale.md is what the planner says."""

import re
from pathlib import Path

import pytest

from fairseq_linformer.planning.formulas import parameters
from fairseq_linformer.planning.gpus import GIB, GPUS
from fairseq_linformer.planning.plan import make_plan, memory_of

from .runs import at

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/scale.md").read_text()
V100, A100, H100 = (GPUS[name] for name in ("v100-16gb", "a100-80gb", "h100-80gb"))


def rows(heading):
    """Cells of a table, by the number in the first of them."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line] for line in lines]
    assert len(table) > 4
    return {int(first.replace(",", "")): cells for first, *cells in table[2:]}


def gib(run, sequences, checkpointed=False):
    return f"{memory_of(run, sequences, 1, checkpointed).activations / GIB:.1f}"


def millions(run):
    return f"{parameters(run.model).projections / 1e6:,.1f} M"


def test_more_gpus():
    for gpus, cells in rows("More GPUs").items():
        plans = [make_plan(at(), gpu, gpus) for gpu in (V100, A100, H100)]
        hours = [f"{plan.hours:.1f} ({plan.time.exposed / plan.time.total:.0%})" for plan in plans]
        assert cells == [f"{plans[0].sequences} x {plans[0].update_freq}", *hours]


def test_longer_sequences():
    for n, cells in rows("Longer sequences").items():
        expected = []
        for sharing in (None, "headwise", "layerwise"):
            run = at(n, sharing)
            stored, recomputed = (gib(run, 65536 // n, again) for again in (False, True))
            expected += [f"{make_plan(run, H100, 8).hours:.1f}", f"{stored} / {recomputed}"]
        assert cells == expected


def test_larger_k():
    for k, cells in rows("Larger k").items():
        run = at(4096, "headwise", f"model.projected_dim={k}")
        assert cells == [f"{make_plan(run, H100, 8).hours:.1f}", gib(run, 16), millions(run)]


def test_parameters_of_the_projections():
    for n, cells in rows("Parameters of E and F").items():
        expected = []
        for sharing in ("none", "headwise", "key-value", "layerwise"):
            held = memory_of(at(n, sharing), 1, 1, False)
            expected.append(f"{millions(at(n, sharing))}, {(held.weights + held.gradients + held.optimizer) / GIB:.1f}")
        assert cells == expected


def test_the_published_run():
    """8,192 sequences per update: 4 times those of the base."""
    run = at(512, None, "model._name=roberta_large", "optimization.update_freq=[512]", "optimization.max_update=100000")
    hours, utilisation = re.search(r"says ([\d.]+) hours; one day is a utilisation of ([\d.]+)\.\n", PAGE).groups()
    assert f"{make_plan(run, GPUS['v100-32gb'], 1024).hours:.1f}" == hours
    assert make_plan(run, GPUS["v100-32gb"], 1024, utilisation=float(utilisation)).hours == pytest.approx(24, rel=0.1)
