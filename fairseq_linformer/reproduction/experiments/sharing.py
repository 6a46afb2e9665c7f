"""Section 4: distinct projection matrices and parameters of each kind of sharing.

Usage:

    fairseq-linformer reproduce parameters --scale cpu
"""

from argparse import Namespace
from collections.abc import Iterator

from fairseq.models.roberta import RobertaModel
from torch._subclasses import FakeTensorMode

from ...models import LinformerRobertaModel
from ...models.stub_task import StubTask
from ...modules.projection import count_matrices, learned_projections
from ...planning.planned_run import VOCAB_SIZE
from ..claim import Claim
from ..counting_experiment import CountingExperiment
from ..records import Measurement, Paper, Record
from ..rules import rule
from ..statistics import Check, decide

PRINTED = {"headwise": 24, "key-value": 12, "layerwise": 1}
"""Distinct matrices at 12 layers and 12 heads."""
N, K = 512, 256


def count_parameters() -> Iterator[Measurement]:
    """Distinct matrices E and F, their parameters, and those of the model, of base size with n = 512, k = 256."""
    for sharing in ("none", *PRINTED):
        with FakeTensorMode():  # shapes without memory
            args = Namespace(arch="linformer_roberta_base", sharing=sharing, projected_dim=str(K), projection="linear")
            model = LinformerRobertaModel.build_model(args, StubTask(VOCAB_SIZE, N))
        in_projections = [p for m in learned_projections(model) for p in m.parameters() if p.requires_grad]
        yield Measurement(metric="matrices", sharing=sharing, value=count_matrices(model), unit="matrices")
        yield Measurement(
            metric="parameters_in_them",
            sharing=sharing,
            value=sum(p.numel() for p in in_projections),
            unit="parameters",
        )
        yield Measurement(metric="parameters", sharing=sharing, value=_size(model), unit="parameters")
    with FakeTensorMode():
        roberta = RobertaModel.build_model(Namespace(arch="roberta_base", max_positions=N), StubTask(VOCAB_SIZE, N))
    yield Measurement(metric="parameters", model="roberta", value=_size(roberta), unit="parameters")


def _size(model) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def checks(record: Record) -> list[Check]:
    found = []
    for sharing, printed in record.paper.value.items():
        (m,) = record.select("matrices", sharing=sharing)
        text = f"{sharing}: {m.value:g} {'matrix' if m.value == 1 else 'matrices'} (paper: {printed})"
        found.append(decide(m.value == printed, text))
    return found


CLAIM = Claim(
    "sharing",
    "Section 4, parameter sharing",
    "At 12 layers and 12 heads headwise, key-value and layerwise sharing leave 24, 12 and 1 distinct matrices.",
    "Holds if the model of base size has these numbers; does not hold if one differs.",
    rule("parameters", "parameters-*", checks),
)


EXPERIMENTS = (
    CountingExperiment(
        "parameters",
        "Shared projections",
        [CLAIM],
        ("smoke", "cpu"),
        lambda scale: count_parameters(),
        "Matrices E and F, and parameters, of a model of base size by sharing, n = 512, k = 256",
        Paper(where="section 4, additional efficiency techniques", value=PRINTED),
        lambda scale: {"n": N, "k": K, "layers": 12, "heads": 12},
    ),
)
