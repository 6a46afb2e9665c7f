"""Section 4: how many distinct projection matrices each kind of sharing leaves, and how many parameters.

    fairseq-linformer reproduce parameters --scale cpu
"""

import time
from argparse import Namespace
from collections.abc import Iterator

from fairseq.models.roberta import RobertaModel
from torch._subclasses import FakeTensorMode

from ...models import LinformerRobertaModel
from ...models.bare_task import BareTask
from ...modules.projection import LearnedProjection, count_matrices
from ...planning.configs import VOCABULARY
from ..cells import rule
from ..counting import Counted
from ..records import Measurement, Record
from ..registry import Claim
from ..statistics import FAILS, HOLDS, Check

PRINTED = {"headwise": 24, "key-value": 12, "layerwise": 1}
"""Distinct matrices at 12 layers and 12 heads."""
N, K = 512, 256


def count_parameters() -> Iterator[Measurement]:
    """Of base size, n = 512, k = 256: distinct matrices E and F, parameters in them, and parameters of the model."""
    for sharing in ("none", *PRINTED):
        with FakeTensorMode():  # shapes without memory
            args = Namespace(arch="linformer_roberta_base", sharing=sharing, projected_dim=str(K), projection="linear")
            model = LinformerRobertaModel.build_model(args, BareTask(VOCABULARY, N))
        inside = [p for m in model.modules() if isinstance(m, LearnedProjection) for p in m.parameters() if p.requires_grad]
        yield Measurement(metric="matrices", sharing=sharing, value=count_matrices(model), unit="matrices")
        yield Measurement(metric="parameters_in_them", sharing=sharing, value=sum(p.numel() for p in inside), unit="parameters")
        yield Measurement(metric="parameters", sharing=sharing, value=_size(model), unit="parameters")
    with FakeTensorMode():
        roberta = RobertaModel.build_model(Namespace(arch="roberta_base", max_positions=N), BareTask(VOCABULARY, N))
    yield Measurement(metric="parameters", model="roberta", value=_size(roberta), unit="parameters")


def _size(model) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def checks(record: Record) -> list[Check]:
    found = []
    for sharing, printed in record.paper.value.items():
        ours = record.find("matrices", sharing=sharing).value
        found.append(Check(HOLDS if ours == printed else FAILS, f"{sharing}: {ours:g} matrices (paper: {printed})"))
    return found


CLAIM = Claim(
    "sharing", "Section 4, parameter sharing",
    "At 12 layers and 12 heads headwise, key-value and layerwise sharing leave 24, 12 and 1 distinct matrices.",
    "Holds if the model has as many; does not hold if one differs.", rule("parameters", "parameters-*", checks),
)  # fmt: skip


def count(scale: str, command: str) -> Record:
    begun = time.monotonic()
    return Counted.record(
        "parameters", scale, command, begun, list(count_parameters()),
        {"value": PRINTED, "where": "section 4, additional efficiency techniques"},
        "Matrices E and F, and parameters, of a model of base size by sharing, n = 512, k = 256",
        {"n": N, "k": K, "layers": 12, "heads": 12},
    )  # fmt: skip


EXPERIMENTS = (Counted("parameters", "Shared projections", [CLAIM], ("smoke", "cpu"), count),)
