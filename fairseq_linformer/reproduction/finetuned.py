"""Pretraining and finetuning of the models of Table 2.

    RUNS/SCALE/table-2/NAME/seedS/                                 pretraining, as in ``runs.py``
    RUNS/SCALE/table-2/finetuned/TASK-MODEL[-from-scratch]-seedS/  finetuning, as in ``finetuning/run.py``

A Linformer of twice the n comes from a RoBERTa that has grown to it, and so has more updates.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..evaluation.classifier import DICTIONARY, difference, read_dictionary
from ..evaluation.rows import is_prepared
from ..finetuning import data, finetune, run
from ..finetuning.recipe import GRID_LRS, Recipe, grid
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, DONE
from ..task_data.table import TASKS, Task
from . import scoring
from .finetuning_records import PREFIX, paper_cell, paper_row, record_of
from .paper_scale import SCALE, PaperScale, is_trained, rules_of_submission
from .records import Record
from .registry import Claim, Experiment, Inputs, Unfinished, is_past
from .runs import Model, Run, RunFolder, in_training_order
from .scales import SCALES, Scale
from .text import described, shards_of
from .training import check_folders, check_same_plan, how_measured, sizes_of, train

FINETUNED = "finetuned"
FROM_SCRATCH = ("linformer", "roberta")
"""Models that are finetuned without pretraining too."""
TOLERANCE = {"%": 0.03, "1": 0.05, "rows": 0.0}
"""By unit, relative: of a finetuning repeated on another processor, which rounds differently."""


@dataclass(frozen=True)
class Sizes:
    """Of one pretrained RoBERTa, the Linformers that it is converted to, and their finetuning.

    Attributes:
        stages: (n, updates), from scratch and then growing; the last n is RoBERTa's.
        last: updates of each model after that, with the learning rate decaying to zero.
        lr: of pretraining.
        linformers: (n, k, sharing); n is RoBERTa's or twice it. The first is finetuned without pretraining too, as is RoBERTa.
        rate, batch_size, epochs: of finetuning; epochs by task.
    """

    stages: tuple[tuple[int, int], ...]
    last: int
    lr: float
    linformers: tuple[tuple[int, int, str], ...]
    rate: float
    batch_size: int
    epochs: dict[str, int]


def _linformers(n: int, ks: tuple[int, int], longer_k: int) -> tuple[tuple[int, int, str], ...]:
    """The paper's: two k with each sharing, and one of twice the n."""
    return (*((n, k, sharing) for k in ks for sharing in ("headwise", "key-value", "layerwise")), (2 * n, longer_k, "headwise"))


SIZES: dict[str, Sizes] = {
    "smoke": Sizes(((8, 3), (16, 3)), 4, 1e-3, ((16, 8, "headwise"),), 1e-3, 8, {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 1}),
    "cpu": Sizes(((16, 2000), (32, 400), (64, 4000), (128, 5000)), 1500, 2e-3, _linformers(128, (64, 32), 64), 5e-4, 32,
                 {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 2}),
    "gpu": Sizes(((128, 20000), (256, 1000), (512, 4000)), 2000, 5e-4, _linformers(512, (256, 128), 256), 2e-5, 32,
                 {"sst-2": 3, "imdb": 3, "qnli": 3, "qqp": 3}),
}  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A model that is finetuned on a task, with each seed."""

    task: Task
    model: str
    from_scratch: bool

    @property
    def name(self) -> str:
        return f"{self.task.name}-{self.model}" + "-from-scratch" * self.from_scratch


def pretrainings(scale: Scale, sizes: Sizes) -> dict[str, Run]:
    """The pretrained models by name; all of one n have as many updates. E and F start as the project's default.

    Pretraining has one seed; the seeds of a record are of finetuning.
    """
    base, seed = None, scale.seeds[0]
    for n, updates in sizes.stages:
        base = Run(Model(n), seed, "grown" if base else "scratch", updates, base)
    runs = {"roberta": Run(base.model, seed, "continued", sizes.last, base, decays=True)}
    for n, k, sharing in sizes.linformers:
        start = base if n == base.model.n else Run(Model(n), seed, "grown", scale.grown, base)
        name = f"linformer-n{n}-k{k}-{sharing}" if "linformer" in runs else "linformer"
        runs[name] = Run(Model(n, k, sharing, start=None), seed, "converted", sizes.last, start, decays=True)
    return runs


def members(scale: Scale, sizes: Sizes) -> list[Member]:
    """All that is finetuned, first the two models that are finetuned from scratch too."""
    tasks = [TASKS[name] for name in sizes.epochs]
    both = [Member(task, model, from_scratch) for model in FROM_SCRATCH for task in tasks for from_scratch in (False, True)]
    others = [model for model in pretrainings(scale, sizes) if model not in FROM_SCRATCH]
    return both + [Member(task, model, False) for model in others for task in tasks]


class FinetuningExperiment(Experiment):
    """
    Args:
        paper_scale: what makes ``paper_scale`` of this experiment.
    """

    reads = ("text", "tasks")
    scales = (*SIZES, "paper")

    def __init__(self, name: str, title: str, claims: Sequence[Claim], paper_scale: Callable[[Experiment], PaperScale]):
        self.name, self.title, self.claims = name, title, tuple(claims)
        self.paper_scale = paper_scale(self)

    def cost(self, scale: str) -> str:
        if scale == SCALE:
            return "an array of Slurm, a GPU a run"
        scale_sizes = SCALES[scale]
        runs = in_training_order({model: [run] for model, run in pretrainings(scale_sizes, SIZES[scale]).items()})
        return f"{sum(run.updates for run in runs):,} updates, {len(scale_sizes.seeds) * len(members(scale_sizes, SIZES[scale]))} finetunings"

    def configuration(self, model: str, scale: str) -> dict[str, Any]:
        """What a record says of its plan: that of its model alone, so that others can be added."""
        sizes = {**sizes_of(SCALES[scale]), **asdict(SIZES[scale])}
        del sizes["linformers"]
        runs = {model: pretrainings(SCALES[scale], SIZES[scale])[model].described()}
        return json.loads(json.dumps({"sizes": sizes, "seeds": SCALES[scale].seeds, "runs": runs}))

    def check_same(self, record: Record, inputs: Inputs) -> None:
        name = _member_name(record)
        member = next((m for m in members(SCALES[record.scale], SIZES[record.scale]) if m.name == name), None)
        if member is None:
            raise ValueError(f"{record.identifier} is of a model or task that {self.name} at scale {record.scale} no longer has; "
                             f"its commit, {record.commit}, has it. Give another --ledger")  # fmt: skip
        task, n = record.configuration["task"], record.configuration["model"]["max_positions"]
        check_task(task, n, inputs.tasks, inputs.text)
        here = _data(f"{task}: {data.described(data.folder_of(inputs.tasks, task, n))}", described(inputs.text))
        check_same_plan(record, self.configuration(member.model, record.scale), here)

    def has_runs(self, record: Record, inputs: Inputs) -> bool:
        return all(self._finished(record, inputs))

    def _finished(self, record: Record, inputs: Inputs) -> list[bool]:
        """Of each seed: whether the model is pretrained and finetuned."""
        folder = inputs.folder / record.scale / self.name
        (model,) = record.configuration["runs"]
        scale_sizes = SCALES[record.scale]
        history = pretrainings(scale_sizes, SIZES[record.scale])[model].history
        pretrained = all(RunFolder(each, scale_sizes, folder, inputs.text).is_done for each in history)
        return [pretrained and (folder / FINETUNED / f"{_member_name(record)}-seed{seed}" / run.RESULT).exists() for seed in scale_sizes.seeds]

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        return self._measure(scale, inputs, command, members(SCALES[scale], SIZES[scale]))

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        """Of its model and task alone."""
        self.check(record.scale, inputs)
        self.check_same(record, inputs)
        done = self._finished(record, inputs)
        only = [m for m in members(SCALES[record.scale], SIZES[record.scale]) if m.name == _member_name(record)]
        return how_measured(done), self._measure(record.scale, inputs, record.command, only, again=True)

    def _measure(self, scale: str, inputs: Inputs, command: str, chosen: Sequence[Member], again: bool = False) -> list[Record]:
        """
        Args:
            again: score what was scored before.

        Raises:
            Unfinished: the time budget is spent.
            ValueError: a task is missing or not in the tokens of the text; or a training failed.
        """
        scale_sizes, until = SCALES[scale], inputs.deadline()
        folder = inputs.folder / scale / self.name
        models = {name: run for name, run in pretrainings(scale_sizes, SIZES[scale]).items() if name in {m.model for m in chosen}}
        for task, n in dict.fromkeys((m.task.name, models[m.model].model.n) for m in chosen):
            check_task(task, n, inputs.tasks, inputs.text)
        pretraining = replace(scale_sizes, lr=SIZES[scale].lr)
        every = in_training_order({name: [run] for name, run in models.items()})
        folders = [RunFolder(each, pretraining, folder, inputs.text) for each in every]
        check_folders(folders, inputs.text)
        rules = {model: scoring.rules_before_runs(self.name, self.claims, folder.parent, model) for model in models}
        train(folders, f"{self.name}, pretraining", until)
        jobs = list(_jobs(scale_sizes, SIZES[scale], chosen, models, folder, Path(inputs.tasks)))
        results = self._finetune(jobs, folder, until)
        if again:
            results = {job.name: {**results[job.name], **run.judge(job.task, job.trainings(job.start())[0])} for _, job in jobs}
        pretrained = {model: scoring.provenance([folder / each.name for each in of_model.history]) for model, of_model in models.items()}
        records = []
        for member in chosen:
            found = [results[job.name] for each, job in jobs if each is member]
            record = record_of(member.task, found, f"{member.name}-{scale}", command)
            plan = {**self.configuration(member.model, scale), "pretrained": pretrained[member.model]}
            records.append(record.changed(
                made_by="reproduce", scale=scale, paper=_paper(record, SIZES[scale]), data=_data(record.data, described(inputs.text)),
                configuration={**record.configuration, **plan}, rules=rules[member.model], tolerance=TOLERANCE,
            ))  # fmt: skip
        return records

    def _finetune(self, jobs: Sequence[tuple[Member, finetune.Job]], folder: Path, until: float | None) -> dict[str, dict[str, Any]]:
        """The result of each job, by its name."""
        missing = [job for _, job in jobs if not (folder / job.name / run.RESULT).exists()]
        # What is damaged is rejected before others are finetuned.
        results = {job.name: finetune.finetune(job)[0] for _, job in jobs if job not in missing}
        for i, job in enumerate(missing):
            out_of_time = i and is_past(until)
            if not out_of_time:
                print(f"finetuning {i + 1} of {len(missing)}: {job.name}", file=sys.stderr)
            if out_of_time or not (found := finetune.finetune(job, until)):
                left = missing[i:]
                raise Unfinished(f"{self.name}: the time budget is spent; {len(left)} of {len(jobs)} finetunings are left, "
                                 f"{left[0].name} first; rerun the command to resume")  # fmt: skip
            results[job.name] = found[0]
        return results


def _member_name(record: Record) -> str:
    return record.identifier.removeprefix(PREFIX).removesuffix(f"-{record.scale}")


def _data(task: str, text: str) -> str:
    return f"{task}; pretrained on: {text}"


def check_task(name: str, n: int, tasks, text) -> None:
    """Before anything is trained.

    Raises:
        ValueError: ``tasks`` lacks the task, or has it too long for a model of n or not in the tokens of ``text``.
    """
    dictionary, folder = shards_of(text)[0] / DICTIONARY, data.folder_of(tasks, name, n)
    if not is_prepared(folder):
        raise ValueError(f"--tasks is {tasks}; it has no {folder.name}, written by `fairseq-linformer prepare {name}`")
    try:
        data.check_fits(TASKS[name], folder, n)
    except ValueError as error:
        raise ValueError(f"{error}; a model of n = {n} reads {Path(tasks) / f'{name}-n{n}'} if it exists") from None
    path = folder / "input0" / DICTIONARY
    if at := difference(read_dictionary(dictionary), read_dictionary(path)):
        raise ValueError(f"{path} differs from the dictionary of --text, {dictionary}: {at}; prepare {name} again with the tokenizer of the text")


def _jobs(scale: Scale, sizes: Sizes, chosen: Sequence[Member], models: dict[str, Run], folder: Path,
          tasks: Path) -> Iterator[tuple[Member, finetune.Job]]:  # fmt: skip
    """All of the first seed first."""
    for seed in scale.seeds:
        for member in chosen:
            pretraining = models[member.model]
            recipe = Recipe(sizes.rate, sizes.batch_size, sizes.epochs[member.task.name], seed)
            yield member, finetune.Job(
                member.task, str(folder / pretraining.name / CHECKPOINTS / LAST), [recipe], f"{FINETUNED}/{member.name}-seed{seed}",
                str(data.folder_of(tasks, member.task.name, pretraining.model.n)), str(folder), from_scratch=member.from_scratch,
                device=scale.device, overrides=("dataset.num_workers=0",),
            )  # fmt: skip


def _paper(record: Record, sizes: Sizes) -> dict[str, Any]:
    """The paper's row that a model stands for: its n and k are to RoBERTa's n what the row's are to 512."""
    model, n = record.configuration["model"], sizes.stages[-1][0]
    in_proportion = {name: int(model[name] or 0) * 512 // n for name in ("max_positions", "projected_dim")}
    row = paper_row({**model, **in_proportion})
    cell = paper_cell(record.configuration["task"], row)
    return {**cell, "where": cell["where"] + f"; here {n} stands for 512, and k in proportion" * (row is not None and n != 512)}


class PaperTable2(PaperScale):
    """The paper's rows that are pretrained here, each finetuned with a grid of rates, batches and seeds."""

    reads = ("tasks",)
    rows = {
        "n512-roberta": "512, RoBERTa-base",
        "n512-k128-headwise": "512, Linformer, 128",
        "n512-k128-key-value": "512, Linformer, 128, shared kv",
        "n512-k128-layerwise": "512, Linformer, 128, shared kv, layer",
        "n512-k256-headwise": "512, Linformer, 256",
        "n512-k256-key-value": "512, Linformer, 256, shared kv",
        "n512-k256-layerwise": "512, Linformer, 256, shared kv, layer",
        "n1024-k256-headwise": "1024, Linformer, 256",
        "n1024-k256-key-value": "1024, Linformer, 256, shared kv",
        "n1024-k256-layerwise": "1024, Linformer, 256, shared kv, layer",
    }
    """By the run of ``configs/pretrain/run``. (Headwise where the row says nothing of sharing: assumed.)"""
    tasks = ("sst-2", "imdb", "qnli", "qqp")
    rates, batches, seeds = GRID_LRS, (16, 32), (1, 2, 3)
    """RoBERTa's grid for GLUE (Liu et al. 2019, Table 10): ASSUMED, the paper does not say how it finetuned."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment

    @property
    def pretraining(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def jobs(self, runs, tasks, device: str = "gpu") -> list[finetune.Job]:
        """A grid per row and task.

        Args:
            runs: folder of the pretrainings, under the names that ``submit`` gives them.
            tasks: folder of the tasks. A model of n = 1,024 reads ``imdb-n1024`` if it exists, and so on.

        Raises:
            ValueError: a model is not trained to its end, or a task is missing.
        """
        for name in self.rows:
            if not is_trained(runs, name):
                raise ValueError(f"{Path(runs) / name} has not finished training: it has no `{DONE}`; Table 2 finetunes only finished pretrainings")
        return [self._job(name, task, Path(runs), Path(tasks), device) for name in self.rows for task in self.tasks]

    def _job(self, name: str, task: str, runs: Path, tasks: Path, device: str) -> finetune.Job:
        n = name.split("-")[0].removeprefix("n")
        if not is_prepared(folder := data.folder_of(tasks, task, n)):
            raise ValueError(f"--tasks is {tasks}; it has no {task}, written by `fairseq-linformer prepare {task}`")
        checkpoint, recipes = runs / name / CHECKPOINTS / LAST, grid(self.rates, self.batches, self.seeds)
        return finetune.Job(TASKS[task], str(checkpoint), recipes, f"table-2/{name}/{task}", str(folder), str(runs), device=device)

    def members(self, runs, tasks, device: str) -> list[list[str]]:
        trainings = [training for job in self.jobs(runs, tasks, device) for training in job.trainings(job.start())]
        return [[f"--config={training.config}", f"--name={training.name}", *training.overrides] for training in trainings]

    def is_trained(self, runs, tasks, device: str) -> bool:
        jobs = self.jobs(runs, tasks, device)
        return all((training.folder / DONE).exists() for job in jobs for training in job.trainings(job.start()))

    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        rules, records = rules_of_submission(self.experiment, inputs.folder), []
        for job in self.jobs(inputs.folder, inputs.tasks, device):
            _, name, task = job.name.split("/")
            record = record_of(job.task, finetune.finetune(job), f"{task}-{name}-{SCALE}", command)
            records.append(record.changed(made_by="reproduce", scale=SCALE, rules=rules))
        return records
