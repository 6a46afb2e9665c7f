"""All numbers in the tables of docs/planning.md are the planner's."""

from pathlib import Path

import pytest

from fairseq_linformer.benchmark.formulas import count_parameters
from fairseq_linformer.benchmark.gpus import GIB, GPUS
from fairseq_linformer.training.plan import build_plan, build_plans, micro_batch_memory
from fairseq_linformer.training.report import format_range

from .runs import base_run

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/planning.md").read_text()
V100, A100, H100 = (GPUS[name] for name in ("v100-16gb", "a100-80gb", "h100-80gb"))


def rows(heading):
    """Cells of a table's rows, by the number in the first column."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line] for line in lines]
    assert len(table) > 4
    return {int(first.replace(",", "")): cells for first, *cells in table[2:]}


def gib(run, sequences, checkpoint_activations=False):
    return f"{micro_batch_memory(run, sequences, 1, checkpoint_activations).activations / GIB:.1f}"


def millions(run):
    return f"{count_parameters(run.model).projections / 1e6:,.1f} M"


def hours(*plans):
    return format_range([plan.hours for plan in plans], ",.1f")


def test_table_of_utilization():
    section = PAGE.split("| GPU | utilization |")[1].split("\n\n")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()[2:]]
    assert found == [
        [gpu.name, format_range(gpu.half_utilization, ".2f"), *gpu.utilization_sources] for gpu in GPUS.values()
    ]


def test_table_of_gpus():
    for gpus, cells in rows("More GPUs").items():
        plans = [build_plans(base_run(), gpu, gpus) for gpu in (V100, A100, H100)]
        waiting = [fastest.time.exposed / fastest.time.total for _, fastest in plans]
        expected = [f"{hours(*plan)} ({share:.0%})" for plan, share in zip(plans, waiting)]
        assert cells == [f"{plans[0][0].sequences} x {plans[0][0].update_freq}", *expected]


def test_table_of_lengths():
    for n, cells in rows("Longer sequences").items():
        expected = []
        for sharing in (None, "headwise", "layerwise"):
            run = base_run(n, sharing)
            stored, recomputed = (gib(run, 65536 // n, again) for again in (False, True))
            expected += [hours(*build_plans(run, H100, 8)), f"{stored} / {recomputed}"]
        assert cells == expected


def test_table_of_k():
    for k, cells in rows("Larger k").items():
        run = base_run(4096, "headwise", f"model.projected_dim={k}")
        assert cells == [hours(*build_plans(run, H100, 8)), gib(run, 16), millions(run)]


def test_table_of_projection_parameters():
    for n, cells in rows("Parameters of E and F").items():
        expected = []
        for sharing in ("none", "headwise", "key-value", "layerwise"):
            memory = micro_batch_memory(base_run(n, sharing), 1, 1, False)
            expected.append(
                f"{millions(base_run(n, sharing))}, {(memory.weights + memory.gradients + memory.optimizer) / GIB:.1f}"
            )
        assert cells == expected


def test_published_roberta_large():
    """8,192 sequences per update, 4 times the base. The slowest plan for V100 takes the published day."""
    run = base_run(
        512, None, "model._name=roberta_large", "optimization.update_freq=[512]", "optimization.max_update=100000"
    )
    assert build_plan(run, GPUS["v100-32gb"], 1024).hours == pytest.approx(24, rel=0.1)
