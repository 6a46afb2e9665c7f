"""How many matrices and parameters each kind of sharing leaves; the README's table of parameters."""

from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.models.roberta import RobertaModel
from torch._subclasses import FakeTensorMode

from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.models.stub_task import StubTask
from fairseq_linformer.modules.projection import LearnedProjection, count_matrices
from fairseq_linformer.planning.planned_run import VOCAB_SIZE
from fairseq_linformer.reproduction.experiments import sharing
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNMEASURED

from ..evidence import number, outcome, record, verdict

PAGE = (Path(__file__).parents[3] / "docs/options.md").read_text(encoding="utf-8")
ROBERTA = 124_696_665


def counts(**changed):
    matrices = {"none": 288, "headwise": 24, "key-value": 12, "layerwise": 1, **changed}
    found = [number("matrices", value, sharing=sharing, unit="matrices") for sharing, value in matrices.items()]
    return record(
        found, "parameters-cpu", experiment="parameters", paper={"value": sharing.PRINTED, "where": "section 4"}
    )


def test_the_counts_of_the_paper():
    assert sharing.PRINTED == {"headwise": 24, "key-value": 12, "layerwise": 1}
    found = verdict("sharing", counts())
    assert found.outcome == HOLDS and len(found.checks) == 3
    assert outcome("sharing") == UNMEASURED


@pytest.mark.parametrize("kind", sharing.PRINTED)
@pytest.mark.parametrize("more", [1, -1])
def test_every_count_decides(kind, more):
    found = verdict("sharing", counts(**{kind: sharing.PRINTED[kind] + more}))
    assert found.outcome == FAILS and found.deciding[0].startswith(kind)
    assert outcome("sharing", counts(none=7)) == HOLDS  # of which the paper says nothing


@pytest.fixture(scope="module")
def counted():
    (found,) = find("parameters").measure("cpu", Inputs(), "it")
    return found


@pytest.mark.parametrize("kind, matrices", [("none", 288), ("headwise", 24), ("key-value", 12), ("layerwise", 1)])
def test_a_model_of_base_size(kind, matrices, counted):
    """E and F are k x n, 256 x 512, at 12 layers and 12 heads."""
    assert counted.find("matrices", sharing=kind).value == matrices
    assert counted.find("parameters_in_them", sharing=kind).value == matrices * 256 * 512
    assert counted.find("parameters", sharing=kind).value == ROBERTA + matrices * 256 * 512


def test_the_record_of_counts(counted):
    assert counted.find("parameters", model="roberta").value == ROBERTA
    assert (counted.identifier, counted.experiment, counted.scale, counted.command) == (
        "parameters-cpu",
        "parameters",
        "cpu",
        "it",
    )
    assert (
        counted.configuration == {"n": 512, "k": 256, "layers": 12, "heads": 12}
        and counted.paper.value == sharing.PRINTED
    )
    assert set(counted.tolerance.values()) == {0.0} and outcome("sharing", counted) == HOLDS


def test_every_count_is_in_the_table():
    one = record(
        [
            number("matrices", 288.0, sharing="none", unit="matrices"),
            number("parameters", 14155776.0, model="roberta", unit="parameters"),
            number("operations_per_token", 7.5, model="linformer", n=512, unit="operations per token"),
        ],
        "parameters-cpu",
    )
    (table,) = find("parameters").tables([one])
    assert table.rows == [
        ["none: matrices", "288", "matrices"],
        ["roberta: parameters", "14,155,776", "parameters"],
        ["n=512, linformer: operations per token", "7.5", "operations per token"],
    ]


# The README's table


def readme_rows():
    """Projection, sharing, k, then matrices, parameters in them and parameters in all."""
    part = PAGE.split("<!-- parameters begin -->")[1].split("<!-- parameters end -->")[0]
    for line in part.strip().splitlines()[2:]:
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        yield cells[:3], tuple(int(cell.replace(",", "")) for cell in cells[3:])


def model_of(projection, kind, k):
    with FakeTensorMode():  # shapes without memory
        if projection.startswith("none"):
            return RobertaModel.build_model(
                Namespace(arch="roberta_base", max_positions=512), StubTask(VOCAB_SIZE, 512)
            )
        args = Namespace(
            arch="linformer_roberta_base", projection=projection, sharing=kind or "headwise", projected_dim=k
        )
        return LinformerRobertaModel.build_model(args, StubTask(VOCAB_SIZE, 512))


def learned(modules):
    return sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)


def test_the_readme_has_all_kinds():
    described = [tuple(row) for row, _ in readme_rows()]
    assert len(set(described)) == len(described) == 14 and described[0][0] == "none: RoBERTa"
    for kind in ("none", "headwise", "key-value", "layerwise"):
        assert {("linear", kind, "256"), ("conv", kind, "256")} <= set(described)
    assert {"mean-pool", "max-pool", "random"} < {projection for projection, _, _ in described}


@pytest.mark.slow
@pytest.mark.parametrize("described, printed", readme_rows(), ids=lambda cells: "-".join(map(str, cells))[:40])
def test_a_row_of_the_readme(described, printed):
    model = model_of(*described)
    matrices = [module for module in model.modules() if isinstance(module, LearnedProjection)]
    assert (count_matrices(model), learned(matrices), learned([model])) == printed
