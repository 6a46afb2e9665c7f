"""Records of an encoder, and of the Linformers distilled from it, finetuned on the tasks of Table 2."""

from collections.abc import Sequence
from typing import Any

from ..checkpoints.from_transformers import MODEL
from ..finetuning import data, single_run
from ..task_data.tasks import TASKS
from .claim import Claim
from .encoder_models import MODELS, plan
from .encoder_runs import FOLDER, EncoderRuns, Member, Sizes, are_finished, members
from .experiment import Unfinished, check_same_plan
from .finetuning_experiment import TOLERANCE
from .finetuning_records import paper_cell, paper_row, record_of
from .inputs import Inputs
from .member_experiment import MemberExperiment
from .records import TRAINING, Record
from .scoring import provenance, rules_before_runs
from .task_checks import check_task
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

    def check_same(self, record: Record, inputs: Inputs) -> None:
        member = self.member(record)
        check_task(member.task, member.n, inputs.tasks, inputs.data)
        super().check_same(record, inputs)
        task = data.describe_data(data.task_folder(inputs.tasks, member.task, member.n))
        check_same_plan(record, {}, _describe_data(f"{member.task}: {task}", inputs))

    def finished_runs(self, scale: str, inputs: Inputs) -> list[str]:
        folder = inputs.folder / scale
        found = [*folder.glob(f"{MODELS}/*/{MODEL}"), *folder.glob(f"{FOLDER}/*/{single_run.RESULT}")]
        return sorted(path.parent.name for path in found)

    def identifier(self, scale: str, member: Member) -> str:
        return f"{self.name}-{member.name}-{scale}"

    def are_finished(self, scale: str, member: Member, inputs: Inputs) -> list[bool]:
        return are_finished(member, self.sizes[scale].seeds, inputs.folder / scale)

    def measure_members(
        self, scale: str, inputs: Inputs, command: str, members: Sequence[Member], again: bool
    ) -> list[Record]:
        folder, until = inputs.folder / scale, inputs.deadline()
        runs = EncoderRuns(self.sizes[scale], members, inputs, folder)
        rules = {
            name: rules_before_runs(self.name, self.claims, folder, name)
            for name in dict.fromkeys(member.model.name for member in members)
        }
        left = runs.work(until)
        records = [self.record(scale, member, inputs, command, runs, again) for member in runs.finished]
        records = [record.copy_with(rules=rules[self.member(record).model.name]) for record in records]
        if left:
            raise Unfinished(f"{self.name}: {left}", records)
        return records

    def record(
        self, scale: str, member: Member, inputs: Inputs, command: str, runs: EncoderRuns, again: bool
    ) -> Record:
        """The record of a finished member, without rules.

        Args:
            again: score its checkpoints again.
        """
        trainings, results, distillation = runs.trainings(member), runs.results(member), runs.distillation_run(member)
        if again:
            task = TASKS[member.task]
            results = [{**r, **single_run.evaluate_best(task, t)} for r, t in zip(results, trainings)]
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
