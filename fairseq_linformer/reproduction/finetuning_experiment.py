"""Pretraining and finetuning of the models of Table 2.

    RUNS/SCALE/table-2/NAME/seedS/                                 pretraining, as in ``runs.py``
    RUNS/SCALE/table-2/finetuned/TASK-MODEL[-from-scratch]-seedS/  finetuning, as in ``finetuning/single_run.py``

A Linformer with twice the n is converted from a RoBERTa that was grown to that n, so it has more updates.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..finetuning import data, finetune, single_run
from ..finetuning.recipe import Recipe
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS
from . import scoring
from .claim import Claim
from .experiment import Experiment, PaperScale, Unfinished
from .finetuning_plan import SIZES, Member, Sizes, members, pretrainings
from .finetuning_records import paper_cell, paper_row, record_of
from .inputs import Inputs, is_past
from .paper_scale import SCALE
from .records import TRAINING, Record
from .run_folders import RunFolder, check_clean_runs, check_folders, train, training_of
from .runs import Run, in_training_order
from .scales import SCALES, Scale
from .task_checks import check_task
from .text import describe_text
from .training import sizes_of
from .training_options import pack, training_options, unpack

FINETUNED = "finetuned"
TOLERANCE = {"%": 0.03, "1": 0.05, "rows": 0.0}
"""Relative tolerance by unit, for finetuning on a processor that rounds differently."""


class FinetuningExperiment(Experiment):
    """
    Args:
        paper_scale: builds ``self.paper_scale`` from this experiment.
    """

    reads = ("data", "tasks")
    scales = (*SIZES, "paper")

    def __init__(self, name: str, title: str, claims: Sequence[Claim], paper_scale: Callable[[Experiment], PaperScale]):
        self.name, self.title, self.claims = name, title, tuple(claims)
        self.paper_scale = paper_scale(self)

    def cost(self, scale: str) -> str:
        if scale == SCALE:
            return "a Slurm array, one GPU per run"
        scale_sizes = SCALES[scale]
        runs = in_training_order({model: [run] for model, run in pretrainings(scale_sizes, SIZES[scale]).items()})
        num_finetunings = len(scale_sizes.seeds) * len(members(scale_sizes, SIZES[scale]))
        return f"{sum(run.updates for run in runs):,} updates, {num_finetunings} finetunings"

    def configuration(self, model: str, scale: str) -> dict[str, Any]:
        """The plan stored in a record: only that of its model, so that other models can be added later."""
        sizes = {**sizes_of(SCALES[scale]), **asdict(SIZES[scale])}
        del sizes["linformers"]
        runs = {model: pretrainings(SCALES[scale], SIZES[scale])[model].plan()}
        return {"sizes": sizes, "seeds": SCALES[scale].seeds, "runs": runs}

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        scale_sizes, until = SCALES[scale], inputs.deadline()
        folder = inputs.folder / scale / self.name
        models, chosen = pretrainings(scale_sizes, SIZES[scale]), members(scale_sizes, SIZES[scale])
        for task, n in dict.fromkeys((m.task.name, models[m.model].model.n) for m in chosen):
            check_task(task, n, inputs.tasks, inputs.data)
        pretraining = replace(scale_sizes, lr=SIZES[scale].lr)
        every = in_training_order({name: [run] for name, run in models.items()})
        folders = [RunFolder(each, pretraining, folder, inputs.data) for each in every]
        check_folders(folders, inputs.data)
        check_clean_runs(folders, scale)
        train(folders, f"{self.name}, pretraining", until)
        assert inputs.tasks is not None  # ``check`` requires it
        jobs = list(_jobs(scale_sizes, SIZES[scale], chosen, models, folder, Path(inputs.tasks)))
        results = self._finetune(jobs, folder, until)
        pretrained = {
            model: scoring.provenance([folder / each.name for each in run.history]) for model, run in models.items()
        }
        pretrained_options = {
            model: unpack(training_of([f for f in folders if f.run in run.history])) for model, run in models.items()
        }
        records = []
        for member in chosen:
            found = [results[job.name] for each, job in jobs if each is member]
            record = record_of(member.task, found, f"{member.name}-{scale}", command)
            job = next(job for each, job in jobs if each is member)
            finetuning = training_options(job.build_trainings(job.prepare())[0].requested_cfg)
            options = pack({**pretrained_options[member.model], "finetuning": finetuning})
            plan = {
                **self.configuration(member.model, scale),
                "pretrained": pretrained[member.model],
                TRAINING: options,
            }
            records.append(
                record.copy_with(
                    made_by="reproduce",
                    scale=scale,
                    paper=_paper(record, SIZES[scale]),
                    data=_data(record.data, describe_text(inputs.data)),
                    configuration={**record.configuration, **plan},
                    tolerance=TOLERANCE,
                )
            )
        return records

    def _finetune(
        self, jobs: Sequence[tuple[Member, finetune.FinetuningJob]], folder: Path, until: float | None
    ) -> dict[str, dict[str, Any]]:
        """Finetune the unfinished jobs; the result of each by its name. Raises Unfinished when the budget is spent."""
        missing = [job for _, job in jobs if not single_run.is_finished(folder / job.name)]
        # Reject damaged results before finetuning anything.
        results = {job.name: finetune.finetune(job)[0] for _, job in jobs if job not in missing}
        for i, job in enumerate(missing):
            out_of_time = i and is_past(until)
            if not out_of_time:
                print(f"finetuning {i + 1} of {len(missing)}: {job.name}", file=sys.stderr)
            if out_of_time or not (found := finetune.finetune(job, until)):
                left = missing[i:]
                raise Unfinished(
                    f"{self.name}: the time budget is spent; {len(left)} of {len(jobs)} finetunings are left, "
                    f"{left[0].name} first; rerun the command to resume"
                )
            results[job.name] = found[0]
        return results


def _data(task: str, text: str) -> str:
    return f"{task}; pretrained on: {text}"


def _jobs(
    scale: Scale, sizes: Sizes, chosen: Sequence[Member], models: dict[str, Run], folder: Path, tasks: Path
) -> Iterator[tuple[Member, finetune.FinetuningJob]]:
    """The finetuning jobs with their members, seed by seed."""
    for seed in scale.seeds:
        for member in chosen:
            pretraining = models[member.model]
            recipe = Recipe(sizes.rate, sizes.batch_size, sizes.epochs[member.task.name], seed)
            yield (
                member,
                finetune.FinetuningJob(
                    member.task,
                    str(folder / pretraining.name / CHECKPOINTS / LAST),
                    [recipe],
                    f"{FINETUNED}/{member.name}-seed{seed}",
                    str(data.task_folder(tasks, member.task.name, pretraining.model.n)),
                    str(folder),
                    from_scratch=member.from_scratch,
                    device=scale.device,
                    overrides=("dataset.num_workers=0",),
                ),
            )


def _paper(record: Record, sizes: Sizes) -> dict[str, Any]:
    """The paper's row that a model corresponds to: same ratios of n and k to RoBERTa's n, which is 512 there."""
    model, n = record.configuration["model"], sizes.stages[-1][0]
    in_proportion = {name: int(model[name] or 0) * 512 // n for name in ("max_positions", "projected_dim")}
    row = paper_row({**model, **in_proportion})
    cell = paper_cell(record.configuration["task"], row)
    return {
        **cell,
        "where": cell["where"] + f"; here {n} stands for 512, and k in proportion" * (row is not None and n != 512),
    }
