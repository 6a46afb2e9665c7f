"""At 12 layers and 12 heads headwise, key-value and layerwise sharing leave 24, 12 and 1 distinct matrices E and F.

Holds if the model of base size, with n = 512 and k = 256, has these numbers; does not hold if one differs. They are
counted, so they follow from how the model is built: this checks the code, and measures nothing.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from fairseq.models.roberta import RobertaModel
from torch._subclasses import FakeTensorMode

from ...models import LinformerRobertaModel
from ...models.stub_task import VOCAB_SIZE, StubTask
from ...modules.projection import count_matrices, learned_projections
from ..page import Table, pivot
from ..paper_numbers import MATRICES
from ..result import Inputs, Parts, Result, Row, Rows, join
from ..run import Model, label
from ..verdict import Verdict, decide

TITLE, WHERE = "Sharing", "Section 4, parameter sharing"
SAYS = "sharing leaves 24, 12 or 1 distinct matrices"
PARTS: Parts = {scale: {"sharing": ()} for scale in ("smoke", "cpu")}
N, K = 512, 256


def run(inputs: Inputs) -> Result:
    return inputs.result(count_parameters(), "none: shapes")


def count_parameters() -> Iterator[Row]:
    """Distinct matrices E and F, their parameters, and those of the model."""
    for sharing in ("none", *MATRICES):
        fields = Model(N, K, sharing).fields
        args = Namespace(arch="linformer_roberta_base", sharing=sharing, projected_dim=str(K), projection="linear")
        with FakeTensorMode():  # shapes without memory
            model = LinformerRobertaModel.build_model(args, StubTask(VOCAB_SIZE, N))
        projections = [p for module in learned_projections(model) for p in module.parameters() if p.requires_grad]
        yield Row(metric="matrices", value=count_matrices(model), unit="matrices", **fields)
        size = sum(p.numel() for p in projections)
        yield Row(metric="parameters_in_them", value=size, unit="parameters", **fields)
        yield Row(metric="parameters", value=_size(model), unit="parameters", **fields)
    with FakeTensorMode():
        roberta = RobertaModel.build_model(Namespace(arch="roberta_base", max_positions=N), StubTask(VOCAB_SIZE, N))
    yield Row(metric="parameters", value=_size(roberta), unit="parameters", n=N)


def _size(model) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    counts = {row.sharing: row.value for row in join(results).select("matrices")}
    checks = [
        decide(counts.get(sharing) == printed, f"{sharing}: {counts.get(sharing):g} matrices (paper: {printed})")
        for sharing, printed in MATRICES.items()
        if counts
    ]
    return [Verdict("counted", (__doc__ or "").splitlines()[0], checks)]


def tables(results: Sequence[Result]) -> list[Table]:
    rows = Rows(Row(row, model=label(row)) for row in join(results))
    return pivot("Base size", rows, "model", "metric", lambda row: f"{row.value:,.0f}" if row else "")
