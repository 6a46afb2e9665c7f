"""Finetuning of an encoder, and of the Linformers distilled from it, on the tasks of Table 2.

RUNS/SCALE/models/                          as in ``encoder_models.py``
RUNS/SCALE/encoder-tasks/TASK-MODEL-seedS/  as in ``finetuning/single_run.py``; of its checkpoints only the scored one
                                            is kept, without optimizer state
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..checkpoints.files import read_checkpoint, replace_checkpoint
from ..checkpoints.from_transformers import MODEL
from ..files import read_json
from ..finetuning import data, finetune, single_run
from ..finetuning.recipe import Recipe
from ..launching.checksums import SUFFIX as CHECKSUM
from ..launching.run_folder import CHECKPOINTS
from ..task_data.tasks import TASKS
from . import scoring
from .encoder_models import MODELS, Distillation, DistilledModel, EncoderModel, check_encoder, plan, write_transformer
from .finetuning_experiment import TOLERANCE, check_task
from .finetuning_records import paper_cell, paper_row, record_of
from .records import TRAINING, Record
from .registry import Claim, Experiment, Inputs, Unfinished, check_configuration
from .shared_work import Unit, work_through
from .text import checksums, describe_text
from .training import describe_reuse
from .training_options import pack, training_options


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        n: of the distilled models.
        models: the encoder first.
        longer: models that are also finetuned on ``longer_task`` with twice the n, by resizing.
        distillation: of each Linformer.
        recipes: learning rate, batch size and epochs of finetuning, by task.
        seeds: of finetuning; each model is distilled once.
    """

    n: int
    models: tuple[EncoderModel, ...]
    longer: tuple[EncoderModel, ...]
    distillation: Distillation
    recipes: dict[str, tuple[float, int, int]]
    seeds: tuple[int, ...]


NO_DROPOUT = ("model.dropout=0.0", "model.attention_dropout=0.0")
"""A single epoch needs none, and without it attention is several times faster on a CPU."""
LONGER_TASK = "imdb"
"""The task with inputs longer than n."""


@dataclass(frozen=True)
class Member:
    """A model that is finetuned on a task, with each seed; ``n`` is not the model's if it is resized."""

    task: str
    model: EncoderModel
    n: int

    @property
    def name(self) -> str:
        resized = f"-n{self.n}" if self.n != self.model.n else ""
        return f"{self.task}-{self.model.name}{resized}"


def members(sizes: Sizes) -> list[Member]:
    every = [Member(task, model, sizes.n) for model in sizes.models for task in sizes.recipes]
    return every + [Member(LONGER_TASK, model, 2 * sizes.n) for model in sizes.longer if LONGER_TASK in sizes.recipes]


class EncoderTasks(Experiment):
    """
    Args:
        sizes: by scale.
    """

    reads = ("data", "tasks", "encoder")
    resumes_from_records = True

    def __init__(self, name: str, title: str, claims: Sequence[Claim], sizes: dict[str, Sizes]):
        self.name, self.title, self.claims, self.sizes = name, title, tuple(claims), sizes
        self.scales = tuple(sizes)

    def cost(self, scale: str) -> str:
        sizes = self.sizes[scale]
        linformers = [model for model in sizes.models if model.k is not None]
        tokens = len(linformers) * sizes.distillation.updates * sizes.distillation.batch_size * sizes.n
        return f"{tokens:,} tokens of distillation, {len(members(sizes)) * len(sizes.seeds)} finetunings"

    def configuration(self, scale: str, member: Member, inputs: Inputs) -> dict[str, Any]:
        """The plan stored in a record: only that of its model and task, so that others can be added later."""
        sizes = self.sizes[scale]
        return {
            "seeds": list(sizes.seeds),
            "recipe": list(sizes.recipes[member.task]),
            "distilled": asdict(member.model),
            "distillation": plan(sizes.distillation, checksums(inputs.data)),
        }

    def check_same(self, record: Record, inputs: Inputs) -> None:
        member = self._member(record)
        check_task(member.task, member.n, inputs.tasks, inputs.data)
        check_encoder(record, inputs)
        check_configuration(record, self.configuration(record.scale, member, inputs))
        task = data.describe_data(data.task_folder(inputs.tasks, member.task, member.n))
        if record.data != (here := _describe_data(f"{member.task}: {task}", inputs)):
            raise ValueError(f"{record.identifier} was measured on {record.data}, not on {here}; use another --results")

    def has_runs(self, record: Record, inputs: Inputs) -> bool:
        return all(self._finished(record, inputs))

    def finished_runs(self, scale: str, inputs: Inputs) -> list[str]:
        folder = inputs.folder / scale
        found = [*folder.glob(f"{MODELS}/*/{MODEL}"), *folder.glob(f"{self.name}/*/{single_run.RESULT}")]
        return sorted(path.parent.name for path in found)

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        chosen = [each for each in members(self.sizes[scale]) if self._identifier(each, scale) not in inputs.recorded]
        return self._measure(scale, inputs, command, chosen) if chosen else []

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        self.check(record.scale, inputs)
        self.check_same(record, inputs)
        done = self._finished(record, inputs)
        records = self._measure(record.scale, inputs, record.command, [self._member(record)], again=True)
        return describe_reuse(done), records

    def _identifier(self, member: Member, scale: str) -> str:
        return f"{self.name}-{member.name}-{scale}"

    def _member(self, record: Record) -> Member:
        for member in members(self.sizes[record.scale]):
            if self._identifier(member, record.scale) == record.identifier:
                return member
        raise ValueError(
            f"{record.identifier} has a model or task that {self.name} no longer has at scale {record.scale}; check "
            f"out its commit, {record.commit}, or use another --results"
        )

    def _finished(self, record: Record, inputs: Inputs) -> list[bool]:
        folder, name = inputs.folder / record.scale / self.name, self._member(record).name
        seeds = self.sizes[record.scale].seeds
        return [(folder / f"{name}-seed{seed}" / single_run.RESULT).exists() for seed in seeds]

    def _measure(
        self, scale: str, inputs: Inputs, command: str, chosen: Sequence[Member], again: bool = False
    ) -> list[Record]:
        """
        Args:
            again: score finished finetunings again.

        Raises:
            Unfinished: the time budget is spent.
            ValueError: an input is missing or does not fit, or a training failed.
        """
        sizes, until, folder = self.sizes[scale], inputs.deadline(), inputs.folder / scale
        for task, n in dict.fromkeys((member.task, member.n) for member in chosen):
            check_task(task, n, inputs.tasks, inputs.data)
        transformer = write_transformer(str(inputs.encoder), sizes.n, folder)
        models = list(dict.fromkeys(member.model for member in chosen))
        rules = {m.name: scoring.rules_before_runs(self.name, self.claims, folder, m.name) for m in models}
        distilled = {m: DistilledModel(m, sizes.distillation, inputs.data, folder) for m in models if m.k is not None}
        jobs = {
            (member, seed): self._job(sizes, member, seed, inputs, folder) for member in chosen for seed in sizes.seeds
        }
        units = [unit for m in models for unit in self._units(m, distilled.get(m), jobs)]
        left = work_through(units, folder, until)
        finished = [member for member in chosen if all(_is_done(jobs[member, seed]) for seed in sizes.seeds)]
        imported = read_checkpoint(transformer)["provenance"]["imported"]
        records = []
        for member in finished:
            for seed in sizes.seeds:
                _keep_scored(Path(jobs[member, seed].runs, jobs[member, seed].name))
            mine = [job for (each, _), job in jobs.items() if each is member]
            trainings = [job.build_trainings(job.prepare())[0] for job in mine]
            results = [single_run.read_result(training.folder / single_run.RESULT) for training in trainings]
            if again:
                results = [
                    {**result, **single_run.evaluate_best(job.task, training)}
                    for job, training, result in zip(mine, trainings, results)
                ]
            record = record_of(TASKS[member.task], results, member.name, command)
            options = pack({"finetuning": training_options(trainings[0].requested_cfg)})
            row = paper_row({**record.configuration["model"], "from_scratch": False})
            configuration = {
                **record.configuration,
                **self.configuration(scale, member, inputs),
                "encoder": imported,
                "survival": distilled[member.model].report() if member.model in distilled else None,
                TRAINING: options,
            }
            records.append(
                record.copy_with(
                    identifier=self._identifier(member, scale),
                    experiment=self.name,
                    made_by="reproduce",
                    scale=scale,
                    paper=paper_cell(member.task, None if member.model.local_window else row),
                    data=_describe_data(record.data, inputs),
                    configuration=json.loads(json.dumps(configuration)),
                    rules=rules[member.model.name],
                    tolerance=TOLERANCE,
                )
            )
        if left:
            raise Unfinished(
                f"{self.name}: {len(left)} of {len(units)} distillations and finetunings are left, or another process "
                f"runs them, {left[0]} first; rerun the command to resume",
                [] if again else records,
            )
        return records

    def _units(
        self,
        model: EncoderModel,
        distilled: DistilledModel | None,
        jobs: Mapping[tuple[Member, int], finetune.FinetuningJob],
    ) -> list[Unit]:
        """The distillation of a model, if it needs one, and its finetunings."""
        units = [distilled.unit] if distilled else []
        is_ready = distilled.unit.is_done if distilled else lambda: True
        for (member, _), job in jobs.items():
            if member.model == model:
                units.append(Unit(job.name, partial(_is_done, job), is_ready, partial(_finetune, job)))
        return units

    def _job(self, sizes: Sizes, member: Member, seed: int, inputs: Inputs, folder: Path) -> finetune.FinetuningJob:
        lr, batch_size, epochs = sizes.recipes[member.task]
        amp = f"common.amp={str(sizes.distillation.amp).lower()}"
        assert inputs.tasks is not None  # ``check`` requires it
        return finetune.FinetuningJob(
            TASKS[member.task],
            str(folder / MODELS / member.model.name / MODEL),
            [Recipe(lr, batch_size, epochs, seed)],
            f"{member.name}-seed{seed}",
            str(data.task_folder(Path(inputs.tasks), member.task, member.n)),
            str(folder / self.name),
            member.n if member.n != member.model.n else None,
            device="cpu",
            overrides=(amp, "dataset.num_workers=0", "optimizer._name=fused_adam", *NO_DROPOUT),
        )


def _describe_data(task: str, inputs: Inputs) -> str:
    return f"{task}; distilled on: {describe_text(inputs.data)}"


def _is_done(job: finetune.FinetuningJob) -> bool:
    return Path(job.runs, job.name, single_run.RESULT).exists()


def _finetune(job: finetune.FinetuningJob, until: float | None) -> None:
    finetune.finetune(job, until)


def _keep_scored(run: Path) -> None:
    """Delete all checkpoints of a finished run but the scored one, its optimizer state, and the checksums."""
    scored = run / read_json(run / single_run.RESULT)["checkpoint"]
    others = [path for path in (run / CHECKPOINTS).glob("*.pt") if path != scored]
    checkpoint = read_checkpoint(scored)
    if checkpoint.pop("last_optimizer_state", None) is not None:
        replace_checkpoint(checkpoint, scored)
    for path in [*others, *(run / CHECKPOINTS).glob(f"*.pt{CHECKSUM}")]:
        path.unlink()
