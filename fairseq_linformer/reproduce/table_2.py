"""Table 2 in small: a RoBERTa that is pretrained here and the Linformers that it is converted to, finetuned on the tasks; it and one
of them without what they learnt too. (One of twice the n comes from a RoBERTa that has grown to it, and so has more updates.)

    RUNS/SCALE/table-2/NAME/seedS/                                     pretraining, as run_of_plan.py has it
    RUNS/SCALE/table-2/finetuned/TASK-MODEL[-from-scratch]-seedS/      finetuning, as finetuning/run.py has it
"""

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..evaluation.classifier import DICTIONARY, difference, read_dictionary
from ..evaluation.rows import is_prepared
from ..finetuning import data, finetune, run
from ..finetuning.recipe import Recipe
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS
from ..task_data.table import TASKS, Task
from . import finetuned, run_of_plan, runner, trained, training_plan
from .ledger import Entry
from .scales import SCALES, Scale
from .text import described, shards_of
from .training_plan import Run, in_turn

NAME, FINETUNED = "table-2", "finetuned"
FROM_SCRATCH = ("linformer", "roberta")
"""Models that are finetuned without pretraining too."""
TOLERANCE = {"%": 0.03, "1": 0.05, "rows": 0.0}
"""By unit, relative: of a finetuning that is done again on another processor, which rounds otherwise."""


@dataclass(frozen=True)
class Member:
    """A model that is finetuned on a task, with each seed."""

    task: Task
    model: str
    from_scratch: bool

    @property
    def name(self) -> str:
        return f"{self.task.name}-{self.model}" + "-from-scratch" * self.from_scratch


def measure(scale_name: str, runs, text, tasks, minutes: Optional[float], command: str, only: Optional[str] = None) -> "List[Entry] | str":
    """Pretrain and finetune until all is done or the time is up.

    Args:
        runs: folder of the runs; those of a scale are in a folder of its name.
        text: as ``text.shards_of`` wants it.
        tasks: folder with a folder a task, as ``fairseq-linformer prepare`` writes them, in the tokens of ``text``. A model of
            n = 256 takes ``imdb-n256`` if that is there, and so on.
        minutes: after which a run is told to stop and no other begins; None for no limit.
        command: of the entries.
        only: finetune this member alone, and judge again what was judged.

    Returns:
        an entry for each member; a sentence on what is left if the time was up.

    Raises:
        ValueError: a task is missing or not in the tokens of the text; or as ``runner.measure``.
    """
    scale, until = SCALES[scale_name], None if minutes is None else time.monotonic() + 60 * minutes
    runs = Path(runs) / scale_name / NAME
    asked = [member for member in members(scale) if only in (None, member.name)]
    models = {name: of_name for name, of_name in training_plan.table_2(scale).items() if name in {member.model for member in asked}}
    for task, n in dict.fromkeys((member.task.name, models[member.model].model.n) for member in asked):
        check_task(task, n, tasks, text)
    of_pretraining = replace(scale, lr=scale.table_2.lr)
    every = in_turn({name: [of_name] for name, of_name in models.items()})
    runner.check(every, of_pretraining, runs, text)
    rules = {model: trained.remembered(NAME, runs.parent, model) for model in models}
    if left := runner.train(every, of_pretraining, runs, text, until):
        return f"{NAME}, pretraining: {left}"
    jobs = list(_jobs(scale, asked, models, runs, Path(tasks)))
    missing = [job for _, job in jobs if not (runs / job.name / run.RESULT).exists()]
    found = {job.name: finetune.finetune(job)[0] for _, job in jobs if job not in missing}  # what is refused is so before others are finetuned
    for i, job in enumerate(missing):
        if i and until is not None and time.monotonic() >= until:
            return _left(jobs, runs)
        print(f"finetuning {i + 1} of {len(missing)}: {job.name}", file=sys.stderr)
        if not (of_job := finetune.finetune(job, until)):
            return _left(jobs, runs)
        found[job.name] = of_job[0]
    results: Dict[str, List[Dict[str, Any]]] = {}
    for member, job in jobs:
        results.setdefault(member.name, []).append(_judged_again(job, found[job.name]) if only else found[job.name])
    where = {model: trained.where([runs / of_it.name for of_it in in_turn({model: [of_name]})]) for model, of_name in models.items()}
    told = {model: {**plan_of(model, scale_name), "rules": rules[model], "pretrained": where[model]} for model in models}
    return [_entry(member, results[member.name], scale_name, described(text), told[member.model], command) for member in asked]


def members(scale: Scale) -> List[Member]:
    """All that is finetuned, first the Linformer and the RoBERTa that are so from scratch too."""
    tasks, others = [TASKS[name] for name in scale.table_2.epochs], [model for model in training_plan.table_2(scale) if model not in FROM_SCRATCH]
    both = [Member(task, model, from_scratch) for model in FROM_SCRATCH for task in tasks for from_scratch in (False, True)]
    return both + [Member(task, model, False) for model in others for task in tasks]


def plan_of(model: str, scale_name: str) -> Dict[str, Any]:
    """How a model is trained, and with which sizes and seeds; there is one pretraining of it, the seeds are of finetuning."""
    scale = SCALES[scale_name]
    sizes = {**{name: getattr(scale, name) for name in runner.SIZES}, **asdict(scale.table_2)}
    del sizes["linformers"]  # of the other models
    runs = {model: run_of_plan.described(training_plan.table_2(scale)[model])}
    return json.loads(json.dumps({"sizes": sizes, "seeds": scale.seeds, "runs": runs}))


def plan_now(entry: Entry) -> Dict[str, Any]:
    """The plan that an entry would have if it were measured today.

    Raises:
        ValueError: there is no such model at its scale any more.
    """
    for member in members(SCALES[entry.scale]):
        if member.name == member_of(entry):
            return plan_of(member.model, entry.scale)
    raise ValueError(f"{entry.identifier} is of a model or task that {NAME} at scale {entry.scale} has not any more; its commit, {entry.commit}, has it")


def member_of(entry: Entry) -> str:
    """The name of what is finetuned."""
    return entry.identifier.removeprefix(finetuned.PREFIX).removesuffix(f"-{entry.scale}")


def data_of(entry: Entry, given) -> str:
    """What the data of an entry would be, of what is given.

    Raises:
        ValueError: as ``check_task``.
    """
    task, n = entry.configuration["task"], entry.configuration["model"]["max_positions"]
    check_task(task, n, given.tasks, given.text)
    return _data(f"{task}: {data.described(data.folder_of(given.tasks, task, n))}", described(given.text))


def finished(entry: Entry, runs) -> List[bool]:
    """Of each seed: is the model of an entry pretrained and finetuned?"""
    scale, folder = SCALES[entry.scale], Path(runs) / entry.scale / NAME
    (model,) = entry.configuration["runs"]
    pretrained = all(run_of_plan.is_done(of_it, folder) for of_it in in_turn({model: [training_plan.table_2(scale)[model]]}))
    return [pretrained and (folder / FINETUNED / f"{member_of(entry)}-seed{seed}" / run.RESULT).exists() for seed in scale.seeds]


def _data(of_task: str, of_text: str) -> str:
    return f"{of_task}; pretrained on: {of_text}"


def check_task(name: str, n: int, tasks, text) -> None:
    """Before anything is trained.

    Raises:
        ValueError: ``tasks`` has not the task, or it is not cut for a model of n or not in the tokens of ``text``.
    """
    of_text, folder = shards_of(text)[0] / DICTIONARY, data.folder_of(tasks, name, n)
    if not is_prepared(folder):
        raise ValueError(f"--tasks is {tasks}; there is no {folder.name} in it, as `fairseq-linformer prepare {name}` writes it")
    try:
        data.check_fits(TASKS[name], folder, n)
    except ValueError as error:
        raise ValueError(f"{error}; a model of n = {n} takes {Path(tasks) / f'{name}-n{n}'} if that is there") from None
    path = folder / "input0" / DICTIONARY
    if at := difference(read_dictionary(of_text), read_dictionary(path)):
        raise ValueError(f"{path} is not the dictionary of --text: {at}, in {of_text}; prepare {name} anew, with the tokenizer of the text")


def _jobs(scale: Scale, asked: List[Member], models: Dict[str, Run], runs: Path, tasks: Path) -> Iterator[Tuple[Member, finetune.Job]]:
    """All of the first seed first."""
    for seed in scale.seeds:
        for member in asked:
            of_model = models[member.model]
            recipe = Recipe(scale.table_2.rate, scale.table_2.batch_size, scale.table_2.epochs[member.task.name], seed)
            yield member, finetune.Job(
                member.task, str(runs / of_model.name / CHECKPOINTS / LAST), [recipe], f"{FINETUNED}/{member.name}-seed{seed}",
                str(data.folder_of(tasks, member.task.name, of_model.model.n)), str(runs), from_scratch=member.from_scratch, device=scale.device,
                overrides=("dataset.num_workers=0",),
            )  # fmt: skip


def _judged_again(job: finetune.Job, result: Dict[str, Any]) -> Dict[str, Any]:
    return {**result, **run.judge(job.task, job.trainings(job.start())[0])}


def _left(jobs: List[Tuple[Member, finetune.Job]], runs: Path) -> str:
    left = [job for _, job in jobs if not (runs / job.name / run.RESULT).exists()]
    return f"{NAME}: time is up, {len(left)} of {len(jobs)} finetunings are left, {left[0].name} first; the same command goes on"


def _paper(entry: Entry, scale: Scale) -> Dict[str, Any]:
    """The paper's row that a model stands for: its n and k are to RoBERTa's n what the row's are to 512."""
    model, n = entry.configuration["model"], scale.table_2.stages[-1][0]
    of_paper = {name: int(model[name] or 0) * 512 // n for name in ("max_positions", "projected_dim")}
    row = finetuned.paper_row({**model, **of_paper})
    paper = finetuned.paper_of(entry.configuration["task"], row)
    return {**paper, "where": paper["where"] + f"; here {n} stands for 512, and k in proportion" * (row is not None and n != 512)}


def _entry(member: Member, results: List[Dict[str, Any]], scale: str, text: str, told: Dict[str, Any], command: str) -> Entry:
    entry = finetuned.entry_of(member.task, results, f"{member.name}-{scale}", command)
    return replace(entry, scale=scale, paper=_paper(entry, SCALES[scale]), data=_data(entry.data, text), configuration={**entry.configuration, "experiment": NAME, "tolerance": TOLERANCE, **told})
