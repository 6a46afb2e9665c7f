"""The runs behind experiments on finetuned encoders: an encoder, Linformers distilled from it, and their finetunings.

RUNS/SCALE/models/                          as in ``encoder_models.py``
RUNS/SCALE/encoder-tasks/TASK-MODEL-seedS/  as in ``finetuning/single_run.py``; of its checkpoints only the scored one
                                            is kept, without optimizer state
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from ..launching.training_job import TrainingJob
from ..task_data.tasks import TASKS
from .encoder_models import MODELS, Distillation, DistilledModel, EncoderModel, write_transformer
from .inputs import Inputs
from .shared_work import Unit, describe_unfinished, work_through
from .task_checks import check_task

FOLDER = "encoder-tasks"
NO_DROPOUT = ("model.dropout=0.0", "model.attention_dropout=0.0")
"""A single epoch needs none, and without it attention is several times faster on a CPU."""
LONGER_TASK = "imdb"
"""The task with inputs longer than n."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        n: of the distilled models.
        models: the encoder first.
        longer: models that are also finetuned on ``LONGER_TASK`` with twice the n, by resizing.
        distillation: of each Linformer that is not in ``earlier``; its ``amp`` is also that of finetuning.
        recipes: learning rate, batch size and epochs of finetuning, by task.
        seeds: of finetuning; each model is distilled once.
        earlier: distillation of models that were measured before ``distillation`` was chosen. The encoder is not
            distilled; it is listed because its records store these values.
    """

    n: int
    models: tuple[EncoderModel, ...]
    longer: tuple[EncoderModel, ...]
    distillation: Distillation
    recipes: dict[str, tuple[float, int, int]]
    seeds: tuple[int, ...]
    earlier: dict[EncoderModel, Distillation] = field(default_factory=dict)

    def distillation_of(self, model: EncoderModel) -> Distillation:
        return self.earlier.get(model, self.distillation)


@dataclass(frozen=True)
class Member:
    """A model that is finetuned on a task, with each seed; ``n`` is not the model's if it is resized."""

    task: str
    model: EncoderModel
    n: int

    @property
    def is_resized(self) -> bool:
        return self.n != self.model.n

    @property
    def name(self) -> str:
        resized = f"-n{self.n}" if self.is_resized else ""
        return f"{self.task}-{self.model.name}{resized}"


def members(sizes: Sizes) -> list[Member]:
    """All members; resized ones come last, since no claim needs them."""
    every = [Member(task, model, sizes.n) for model in sizes.models for task in sizes.recipes]
    return every + [Member(LONGER_TASK, model, 2 * sizes.n) for model in sizes.longer if LONGER_TASK in sizes.recipes]


class EncoderRuns:
    """The distillations and finetunings that some members need.

    Args:
        chosen: the members.
        folder: RUNS/SCALE.

    Attributes:
        encoder: name and checksum of the encoder.

    Raises:
        ValueError: an input is missing or does not fit; or a finished run had other options, data or weights.
    """

    def __init__(self, sizes: Sizes, chosen: Sequence[Member], inputs: Inputs, folder: Path):
        self._folder, self._members = folder, list(chosen)
        for task, n in dict.fromkeys((member.task, member.n) for member in chosen):
            check_task(task, n, inputs.tasks, inputs.data)
        transformer = write_transformer(str(inputs.encoder), sizes.n, folder)
        self.encoder: dict[str, Any] = read_checkpoint(transformer)["provenance"]["imported"]
        self._distilled = {
            model: DistilledModel(model, sizes.distillation_of(model), inputs.data, folder)
            for model in dict.fromkeys(member.model for member in chosen)
            if model.k is not None
        }
        self._jobs = {each: [_job(sizes, each, seed, inputs, folder) for seed in sizes.seeds] for each in chosen}
        for distilled in self._distilled.values():
            if distilled.unit.is_done():
                distilled.report()
        for member in self.finished:
            if all(Path(job.checkpoint).is_file() for job in self._jobs[member]):
                self.results(member)

    def work(self, until: float | None) -> str:
        """Run the unfinished distillations and finetunings; returns a sentence if some are left, or an empty string."""
        units = self._units()
        left = work_through(units, self._folder, until)
        for member in self.finished:
            for training in self.trainings(member):
                _delete_unscored(training.folder)
        return describe_unfinished(left, units) if left else ""

    @property
    def finished(self) -> list[Member]:
        """The members whose finetunings are done."""
        return [member for member in self._members if all(_is_done(job) for job in self._jobs[member])]

    def trainings(self, member: Member) -> list[TrainingJob]:
        """The finetunings of a finished member, by seed."""
        return [job.build_trainings(job.prepare())[0] for job in self._jobs[member]]

    def results(self, member: Member) -> list[dict[str, Any]]:
        """The results of a finished member, by seed; ValueError if a run had other options, data or weights."""
        return [finetune.finetune(job)[0] for job in self._jobs[member]]

    def distillation_run(self, member: Member) -> Path | None:
        """The run folder of the distillation of its model; None for the encoder."""
        return self._distilled[member.model].run if member.model in self._distilled else None

    def distillation_report(self, member: Member) -> dict[str, Any] | None:
        """The report of the distillation of its model; None for the encoder."""
        return self._distilled[member.model].report() if member.model in self._distilled else None

    def _units(self) -> list[Unit]:
        """Each distillation before the finetunings that need it, in the order of the members."""
        units: dict[str, Unit] = {}
        for member in self._members:
            needed = [self._distilled[member.model].unit] if member.model in self._distilled else []
            for unit in (*needed, *self._finetunings(member)):
                units.setdefault(unit.name, unit)
        return list(units.values())

    def _finetunings(self, member: Member) -> list[Unit]:
        distilled = self._distilled.get(member.model)
        is_ready = distilled.unit.is_done if distilled else lambda: True
        return [
            Unit(job.name, partial(_is_done, job), partial(finetune.finetune, job), is_ready)
            for job in self._jobs[member]
        ]


def are_finished(member: Member, seeds: Sequence[int], folder: Path) -> list[bool]:
    """Whether the finetuning with each seed is done in RUNS/SCALE."""
    return [single_run.is_finished(folder / FOLDER / f"{member.name}-seed{seed}") for seed in seeds]


def _job(sizes: Sizes, member: Member, seed: int, inputs: Inputs, folder: Path) -> finetune.FinetuningJob:
    lr, batch_size, epochs = sizes.recipes[member.task]
    amp = f"common.amp={str(sizes.distillation.amp).lower()}"
    assert inputs.tasks is not None  # ``check`` requires it
    return finetune.FinetuningJob(
        TASKS[member.task],
        str(folder / MODELS / member.model.name / MODEL),
        [Recipe(lr, batch_size, epochs, seed)],
        f"{member.name}-seed{seed}",
        str(data.task_folder(Path(inputs.tasks), member.task, member.n)),
        str(folder / FOLDER),
        member.n if member.is_resized else None,
        device="cpu",
        overrides=(amp, "dataset.num_workers=0", "optimizer._name=fused_adam", *NO_DROPOUT),
    )


def _is_done(job: finetune.FinetuningJob) -> bool:
    return single_run.is_finished(Path(job.runs, job.name))


def _delete_unscored(run: Path) -> None:
    """Delete a finished run's other checkpoints and all checksums, and remove the optimizer state of the scored one."""
    scored = run / read_json(run / single_run.RESULT)["checkpoint"]
    others = [path for path in (run / CHECKPOINTS).glob("*.pt") if path != scored]
    checkpoint = read_checkpoint(scored)
    if checkpoint.pop("last_optimizer_state", None) is not None:
        replace_checkpoint(checkpoint, scored)
    for path in [*others, *(run / CHECKPOINTS).glob(f"*.pt{CHECKSUM}")]:
        path.unlink(missing_ok=True)  # another process may delete it too
