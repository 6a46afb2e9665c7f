"""All experiments: what can be run at which scale, what it costs, what of it is in a ledger."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Iterator, List, Optional

from ..files import check_can_be_written
from . import ledger, runner, table_2, untrained
from .claims import CLAIMS, ELSEWHERE
from .ledger import Entry
from .paper_scale import ARRAYS
from .scales import SCALES, scale_of
from .training_plan import EXPERIMENTS as TRAINED
from .training_plan import in_turn, measured_runs
from .training_plan import table_2 as plan_of_table_2
from .untrained import Left

RUNS = "runs/reproduce"
EXPERIMENTS = (*TRAINED, "table-2", *untrained.EXPERIMENTS, *ELSEWHERE)


@dataclass(frozen=True)
class Inputs:
    """Of a measurement: what it reads, where its runs are, and when it is to stop.

    Attributes:
        runs: folder that takes all runs; None for ``RUNS``.
        text: folder of `prepare pretraining`, of what trains.
        tasks: folder with a folder a task, of table-2.
        minutes: then it stops; None for no limit.
    """

    runs: "str | Path | None" = None
    text: Optional[str] = None
    tasks: Optional[str] = None
    minutes: Optional[float] = None

    @property
    def folder(self) -> Path:
        return Path(RUNS if self.runs is None else self.runs)


def check_experiment(name: str) -> None:
    """
    Raises:
        ValueError: there is no such experiment.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"{name} is no experiment; it must be one of {', '.join(EXPERIMENTS)}, or list")


def measure(name: str, scale: str, given: Inputs, command: str, anew: bool = False) -> "List[Entry] | str":
    """The entries of an experiment once all of it is measured; until then a sentence on what is left.

    Args:
        anew: of what is trained, judge the checkpoints again.

    Raises:
        ValueError: there is no such experiment or scale, it is run elsewhere, or it lacks a text or tasks, or reads none.
    """
    check_experiment(name)
    scale_of(scale)
    if name in ELSEWHERE:
        raise ValueError(f"{name} is measured by {ELSEWHERE[name]}, not at --scale {scale} by this command")
    _check_inputs(name, given)
    if name == "table-2":
        return table_2.measure(scale, given.folder, given.text, given.tasks, given.minutes, command)
    if name in TRAINED:
        return runner.measure(name, scale, given.folder, given.text, given.minutes, command, anew)
    if given.minutes is not None and name not in untrained.CELLS:
        raise ValueError(f"--minutes is given; {name} is measured in one piece")
    try:
        return untrained.entries_of(name, scale, given.folder, given.minutes, command)
    except Left as left:
        return str(left)


def _trains(name: str) -> bool:
    return name in TRAINED or name == "table-2"


def _check_inputs(name: str, given: Inputs) -> None:
    for option, value, reads, kind in (("--text", given.text, _trains(name), "pretraining"), ("--tasks", given.tasks, name == "table-2", "TASK")):
        if reads and value is None:
            raise ValueError(f"{name} trains, and {option} is not given; a folder of `fairseq-linformer prepare {kind}` is wanted")
        if value is not None and not reads:
            raise ValueError(f"{option} is {value}; {name} reads none")
    if given.runs is not None and name in untrained.COUNTED:
        raise ValueError(f"--runs is {given.runs}; {name} has none, it is counted at once")


def measure_again(entry: Entry, given: Inputs) -> "List[Entry] | str":
    """As ``measure``, and nothing that was measured is taken for it but finished trainings in the runs.

    Raises:
        ValueError: as ``measure``; or there is a limit to the time of what is not trained.
    """
    name = entry.configuration["experiment"]
    if name == "table-2":
        return table_2.measure(entry.scale, given.folder, given.text, given.tasks, given.minutes, entry.command, only=table_2.member_of(entry))
    if name in TRAINED:
        return measure(name, entry.scale, given, entry.command, anew=True)
    if given.minutes is not None:
        raise ValueError(f"--minutes is given; {name} is measured again in one piece")
    with TemporaryDirectory() as folder:
        return measure(name, entry.scale, given if name in untrained.COUNTED else replace(given, runs=folder), entry.command)


def how_again(entry: Entry, given: Inputs) -> str:
    """How an entry would be measured again: from the beginning, or by judging runs that are finished.

    Raises:
        ValueError: it would be of other data, or of another plan than that of today.
    """
    name = entry.configuration["experiment"]
    _check_inputs(name, given)
    if not _trains(name):
        if given.runs is not None:
            raise ValueError(f"--runs is {given.runs}; {name} is measured again from the beginning, in a folder of its own")
        return "measured again"
    if why := _other(entry, given):
        raise ValueError(why)
    finished = _module(name).finished(entry, given.folder)
    if not any(finished):
        return "trained again"
    return f"of {sum(finished)} finished runs that were judged again" + f", and {finished.count(False)} that were trained again" * (not all(finished))


def _module(name: str):
    """Of an experiment that trains."""
    return table_2 if name == "table-2" else runner


def _other(entry: Entry, given: Inputs) -> Optional[str]:
    """Why an entry of what is trained is not of this plan and this data; None if it is."""
    name = entry.configuration["experiment"]
    try:
        plan = _module(name).plan_now(entry)
    except ValueError as error:
        return str(error)
    data = _module(name).data_of(entry, given)
    for key, value in plan.items():
        if entry.configuration.get(key) != value:
            return f"{entry.identifier} is of another plan than today's {name} at scale {entry.scale}, in its {key}; its commit, {entry.commit}, has it"
    return f"{entry.identifier} is of other data: {entry.data}; here it is {data}" if data != entry.data else None


def run(name: str, scale: str, given: Inputs, folder, command: str) -> str:
    """Measure what is not measured yet, write the entries, tell the verdicts.

    Raises:
        ValueError: as ``measure``, or as ``ledger.put``; before anything is trained where an entry that is there is of something else.
    """
    _check_ledger(name, scale, given, folder)
    check_can_be_written(given.folder)
    found = measure(name, scale, given, command)
    return found if isinstance(found, str) else put(found, name, scale, folder)


def _check_ledger(name: str, scale: str, given: Inputs, folder) -> None:
    """Before hours of training: what is in the ledger is of these runs, and will be the same."""
    if not _trains(name) or scale not in SCALES:
        return
    _check_inputs(name, given)
    for entry in ledger.entries(folder):
        if (entry.configuration.get("experiment"), entry.scale) == (name, scale):
            if why := _other(entry, given):
                raise ValueError(f"{why}; nothing is overwritten, give another --ledger")
            if not all(_module(name).finished(entry, given.folder)):
                raise ValueError(f"{entry.identifier} is in {folder} already, and its runs are not all in {given.folder}; --verify {entry.identifier} measures it again, "
                                 "or give another --ledger")  # fmt: skip


def put(found: List[Entry], name: str, scale: str, folder) -> str:
    """Write the entries of an experiment, tell the verdicts.

    Raises:
        ValueError: as ``ledger.put``.
    """
    lines = [f"ledger: {ledger.put(entry, folder)}" for entry in found]
    entries = ledger.entries(folder)  # as the report judges: other commands measured what a claim asks for too
    for claim in CLAIMS.values():
        if claim.experiment == name:
            verdict = claim.judge(entries, scale)
            lines += [f"{claim.identifier}: {verdict.outcome} at scale {scale}. {claim.says}", *(f"  {said}" for said in verdict.numbers)]
    return "\n".join(lines)


def listed(folder) -> Iterator[str]:
    """A line an experiment and scale: what it costs, and its entries in the ledger.

    Raises:
        ValueError: there is no such folder, or it has a file that is no entry.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"--ledger is {folder}; there is no such folder")
    entries = ledger.entries(folder)
    for name in EXPERIMENTS:
        for scale in (*SCALES, "paper"):
            if (cost := _cost(name, scale)) is not None:
                made = ", ".join(e.identifier for e in entries if e.scale == scale and e.configuration.get("experiment") == name)
                yield f"{name:12} {scale:6} {cost:60} {made or 'not measured'}"
        others = sorted({e for claim in CLAIMS.values() if claim.experiment == name for s in SCALES for e in claim.judge(entries, s).entries
                         if not any(o.identifier == e and o.configuration.get("experiment") == name for o in entries)})  # fmt: skip
        if others:
            yield f"{name:12} {'':6} {'measured by other commands':60} {', '.join(others)}"


def _cost(name: str, scale: str) -> Optional[str]:
    """None where it has no such scale. Updates are counted, not their time: that depends on the machine."""
    if scale == "paper":
        return f"an array of Slurm, {'a GPU' if name == 'table-2' else '64 GPUs'} a run" if name in ARRAYS else None
    if name in TRAINED:
        every, s = in_turn(measured_runs(name, SCALES[scale])), SCALES[scale]
        updates = sum(run.updates for run in every)
        return f"{len(every)} runs, {updates:,} updates, {updates * s.tokens / 1e6:,.1f} M tokens"
    if name == "table-2":
        s = SCALES[scale]
        updates = sum(run.updates for run in in_turn({model: [run] for model, run in plan_of_table_2(s).items()}))
        return f"{updates:,} updates, {len(s.seeds) * len(table_2.members(s))} finetunings"
    if name in ELSEWHERE:
        return ELSEWHERE[name] if scale == "cpu" else None
    return "trains nothing" if scale in untrained.EXPERIMENTS[name] else None
