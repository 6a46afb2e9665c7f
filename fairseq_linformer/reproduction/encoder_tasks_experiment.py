"""Records of an encoder, and of the Linformers distilled from it, finetuned on the tasks of Table 2."""

from collections.abc import Sequence
from typing import Any

from ..task_data.tasks import TASKS
from .claim import Claim
from .encoder_models import plan
from .encoder_runs import EncoderRuns, Member, Sizes, members
from .experiment import Unfinished
from .finetuning_experiment import TOLERANCE
from .finetuning_records import paper_cell, paper_row, record_of
from .inputs import Inputs
from .member_experiment import MemberExperiment
from .records import TRAINING, Record
from .scoring import provenance
from .text import checksums, describe_text
from .training_options import pack, training_options


class EncoderTasks(MemberExperiment[Member]):
    """
    Args:
        sizes: by scale.
    """

    reads = ("data", "tasks", "encoder")

    def __init__(self, name: str, title: str, claims: Sequence[Claim], sizes: dict[str, Sizes]):
        self.name, self.title, self.claims, self.sizes = name, title, tuple(claims), sizes
        self.scales = tuple(sizes)

    def cost(self, scale: str) -> str:
        sizes = self.sizes[scale]
        linformers = {member.model for member in self.members(scale) if member.model.k is not None}
        tokens = len(linformers) * sizes.distillation.updates * sizes.distillation.batch_size * sizes.n
        return f"{tokens:,} tokens of distillation, {len(self.members(scale)) * len(sizes.seeds)} finetunings"

    def members(self, scale: str) -> list[Member]:
        """The models and tasks that have a record each."""
        return members(self.sizes[scale])

    def configuration(self, scale: str, member: Member, inputs: Inputs) -> dict[str, Any]:
        sizes = self.sizes[scale]
        return {
            "seeds": list(sizes.seeds),
            "recipe": list(sizes.recipes[member.task]),
            "distilled": member.model.describe(),
            "distillation": plan(sizes.distillation_of(member.model), checksums(inputs.data)),
        }

    def identifier(self, scale: str, member: Member) -> str:
        return f"{self.name}-{member.name}-{scale}"

    def measure_members(self, scale: str, inputs: Inputs, command: str, members: Sequence[Member]) -> list[Record]:
        folder, until = inputs.folder / scale, inputs.deadline()
        runs = EncoderRuns(self.sizes[scale], members, inputs, folder)
        left = runs.work(until)
        records = [self.record(scale, member, inputs, command, runs) for member in runs.finished]
        if left:
            raise Unfinished(f"{self.name}: {left}", records)
        return records

    def record(self, scale: str, member: Member, inputs: Inputs, command: str, runs: EncoderRuns) -> Record:
        """The record of a finished member."""
        trainings, results, distillation = runs.trainings(member), runs.results(member), runs.distillation_run(member)
        record = record_of(TASKS[member.task], results, member.name, command)
        row = paper_row({**record.configuration["model"], "from_scratch": False})
        configuration = {
            **record.configuration,
            **self.configuration(scale, member, inputs),
            "encoder": runs.encoder,
            "survival": runs.distillation_report(member),
            "distilled_by": None if distillation is None else provenance([distillation]),
            TRAINING: pack({"finetuning": training_options(trainings[0].requested_cfg)}),
        }
        return record.copy_with(
            identifier=self.identifier(scale, member),
            experiment=self.name,
            made_by="reproduce",
            scale=scale,
            paper=paper_cell(member.task, None if member.model.local_window else row),
            data=_describe_data(record.data, inputs),
            configuration=configuration,
            tolerance=TOLERANCE,
        )


def _describe_data(task: str, inputs: Inputs) -> str:
    return f"{task}; distilled on: {describe_text(inputs.data)}"
