"""Experiments that pretrain models and compare their validation perplexities: plan, record, table, chart."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..checkpoints.files import training_seconds
from . import context_free, scoring
from .paper_scale import PaperFigure
from .records import Curve, Measurement, Record, over_repetitions, reproduced
from .registry import Claim, Experiment, Inputs, Unfinished, is_past
from .report.charts import Chart, Series
from .report.tables import Table, spread_cells
from .runs import Models, Run, RunFolder, in_training_order
from .scales import SCALES, Scale, scale_of
from .scoring import Trained
from .statistics import Verdict, compare_trained, not_measured
from .text import described, shards_of

SIZES = ("layers", "width", "heads", "tokens", "lr", "warmup", "validate", "precision")
"""The fields of ``Scale`` that all runs of a scale share."""
TOLERANCE = {"perplexity": 0.01, "bits": 0.01}
"""On the same machine and versions a repeated training gives the same numbers; other processors round differently."""


class TrainingExperiment(Experiment):
    """
    Args:
        models: the compared models of a scale.
        array: at the paper's scale, a run of ``configs/pretrain/run`` for each model; trained through Slurm (``paper_scale``).
    """

    reads = ("text",)

    def __init__(self, name: str, title: str, claims: Sequence[Claim], models: Callable[[Scale], Models],
                 array: Mapping[str, str] | None = None):  # fmt: skip
        self.name, self.title, self.claims, self.models = name, title, tuple(claims), models
        self.scales = (*SCALES, *["paper"] * bool(array))
        self.paper_scale = PaperFigure(self, array) if array else None

    def plan(self, scale: Scale) -> dict[str, list[Run]]:
        """The compared runs by model, one per seed."""
        return {model: [run(scale, seed) for seed in scale.seeds] for model, run in self.models(scale).items()}

    def configuration(self, scale: Scale) -> dict[str, Any]:
        """What a record says of its plan: sizes, seeds, and how each model comes about."""
        runs = {model: of_seed[0].described() for model, of_seed in self.plan(scale).items()}
        return json.loads(json.dumps({"sizes": sizes_of(scale), "seeds": scale.seeds, "runs": runs}))

    def cost(self, scale: str) -> str:
        if scale == "paper":
            return "an array of Slurm, 64 GPUs a run"
        runs, sizes = in_training_order(self.plan(SCALES[scale])), SCALES[scale]
        updates = sum(run.updates for run in runs)
        return f"{len(runs)} runs, {updates:,} updates, {updates * sizes.tokens / 1e6:,.1f} M tokens"

    def check_same(self, record: Record, inputs: Inputs) -> None:
        check_same_plan(record, self.configuration(scale_of(record.scale)), described(inputs.text))

    def has_runs(self, record: Record, inputs: Inputs) -> bool:
        return all(folder.is_done for folder in self.folders(record.scale, inputs))

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        self._train(scale, inputs)
        return [self.make_record(scale, inputs, command)]

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        self.check(record.scale, inputs)
        self.check_same(record, inputs)
        done = [folder.is_done for folder in self.folders(record.scale, inputs)]
        self._train(record.scale, inputs)
        return how_measured(done), [self.make_record(record.scale, inputs, record.command, again=True)]

    def folders(self, scale: str, inputs: Inputs) -> list[RunFolder]:
        """Of its runs and all that they start from, in the order of training."""
        every = in_training_order(self.plan(SCALES[scale]))
        return [RunFolder(run, SCALES[scale], inputs.folder / scale, inputs.text) for run in every]

    def _train(self, scale: str, inputs: Inputs) -> None:
        until = inputs.deadline()
        every = self.folders(scale, inputs)
        check_folders(every, inputs.text)
        self.rules(scale, inputs)
        train(every, self.name, until)
        compared = {run for of_seed in self.plan(SCALES[scale]).values() for run in of_seed}
        self.score([folder for folder in every if folder.run in compared], inputs, until)

    def rules(self, scale: str, inputs: Inputs) -> dict[str, str]:
        """The rules of its claims, as they read before the first run."""
        return scoring.rules_before_runs(self.name, self.claims, inputs.folder / scale)

    def score(self, compared: Sequence[RunFolder], inputs: Inputs, until: float | None) -> None:
        """Measure the perplexity of each compared run, unless that is done.

        Raises:
            Unfinished: the time budget is spent.
        """
        unscored = [folder for folder in compared if not trained(folder).is_scored]
        for i, folder in enumerate(unscored):
            if i and is_past(until):
                left = f"{len(unscored) - i} trained models are left to be scored"
                raise Unfinished(f"{self.name}: the time budget is spent; {left}; rerun the command to resume")
            scoring.perplexity(trained(folder), inputs.text, folder.scale.device)

    def make_record(self, scale: str, inputs: Inputs, command: str, again: bool = False) -> Record:
        """The record of runs that are all trained.

        Args:
            again: measure what was measured before.
        """
        folders = {folder.run: folder for folder in self.folders(scale, inputs)}
        plan = self.plan(SCALES[scale])
        models = {model: [trained(folders[run]) for run in of_seed] for model, of_seed in plan.items()}
        every = [trained(folder) for folder in folders.values()]
        return self.record(scale, models, every, inputs.text, SCALES[scale].device, self.configuration(SCALES[scale]),
                           command, self.rules(scale, inputs), TOLERANCE, again)  # fmt: skip

    def record(self, scale: str, models: Mapping[str, Sequence[Trained]], every: Sequence[Trained], text, device: str,
               configuration: Mapping[str, Any], command: str, rules: Mapping[str, str] | None = None,
               tolerance: Mapping[str, float] | None = None, again: bool = False) -> Record:  # fmt: skip
        """The record of an experiment whose runs are all trained.

        Args:
            models: the compared runs by label, one per seed. The n of the first is that of the record.
            every: they and all that they started from.
            device: ``cpu`` or ``gpu``, for scoring the runs that have no perplexity yet.
            configuration: of the record, besides n and the masks.
            again: score checkpoints again.

        Raises:
            ValueError: a curve is cut short, or a run does not say where it was trained.
        """
        measurements, curves = [], []
        for model, of_seed in models.items():
            at = {"model": model, "n": of_seed[0].n, **_model_places(configuration, model)}
            found = [scoring.perplexity(run, text, device, again) for run in of_seed]
            for metric in ("perplexity", "bits"):
                measurements.append(Measurement(metric=metric, unit=metric, **at, **dict(over_repetitions([f[metric] for f in found]))))
            for seed, (run, score) in enumerate(zip(of_seed, found), 1):
                measurements.append(Measurement(metric="bits", unit="bits", value=score["bits"], seed=seed, **at))
                points = [(update, round(bits, 4)) for update, bits in scoring.validation_curve(run.folder, run.updates)]
                curves.append(Curve(metric="bits", model=model, seed=seed, points=points))
        for n in sorted({of_seed[0].n for of_seed in models.values()}):
            level = context_free.measure(shards_of(text)[0], n).masked_bits
            measurements.append(Measurement(metric="context_free_bits", unit="bits", value=level, n=n))
        commits = {model: scoring.provenance([run.folder for run in of_seed])["commit"] for model, of_seed in models.items()}
        return Record(
            identifier=f"{self.name}-{scale}",
            experiment=self.name,
            made_by="reproduce",
            claim=" ".join(claim.statement for claim in self.claims),
            paper={"where": self.claims[0].where},
            measurements=measurements,
            curves=curves,
            scale=scale,
            **scoring.provenance([run.folder for run in every]),
            configuration={**configuration, "n": next(iter(models.values()))[0].n, "masks": scoring.MASKS, "commits": commits},
            data=described(text),
            command=command,
            seconds=round(sum(training_seconds(run.last, run.start) for run in every), 1),
            rules=rules and dict(rules),
            tolerance=tolerance and dict(tolerance),
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [table for record in records for table in perplexity_table(record)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in curves_chart(record, f"{self.title}, {record.scale} scale")]

    def context_charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in curves_chart(record, record.identifier)]


def _model_places(configuration: Mapping[str, Any], model: str) -> dict[str, Any]:
    """k and sharing of a model, from its plan."""
    run = configuration.get("runs", {}).get(model, {})
    plan = run.get("model", {"k": run.get("projected_dim"), "sharing": run.get("sharing")})
    return {"k": int(plan["k"]), "sharing": plan["sharing"]} if plan.get("k") else {}


def comparison(experiment: str, models_and_checks: Callable[[Record], tuple]) -> Callable[[Sequence[Record], str], Verdict]:
    """The rule of a claim on trained models.

    Args:
        models_and_checks: a record to the arguments of ``compare_trained`` after it: models, checks, controls, remarks.
    """

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        name = f"{experiment}-{scale}"
        record = next((r for r in reproduced(records, experiment, scale) if r.identifier == name), None)
        return not_measured(name) if record is None else compare_trained(record, *models_and_checks(record))

    return evaluate


def sizes_of(scale: Scale) -> dict[str, Any]:
    return {name: getattr(scale, name) for name in SIZES}


def trained(folder: RunFolder) -> Trained:
    """A run folder, to be read back."""
    return Trained(folder.path, folder.run.model.n, folder.run.updates, folder.start)


def check_same_plan(record: Record, plan: Mapping[str, Any], data: str) -> None:
    """
    Raises:
        ValueError: a record is of another plan or of other data.
    """
    for key, value in plan.items():
        if record.configuration.get(key) != value:
            raise ValueError(f"{record.identifier} does not match the current plan of {record.experiment} at scale {record.scale}: "
                             f"{key!r} differs. Check out the record's commit, {record.commit}, or give another --ledger")  # fmt: skip
    if record.data != data:
        raise ValueError(f"{record.identifier} was measured on other data: {record.data}; here it is {data}. Give another --ledger")


def how_measured(done: Sequence[bool]) -> str:
    """What ``measure_again`` did, from whether each run was finished before."""
    if not any(done):
        return "trained again"
    return f"from {sum(done)} finished runs, scored again" + f", and {done.count(False)} runs trained again" * (not all(done))


def check_folders(every: Sequence[RunFolder], text) -> None:
    """Before anything is trained.

    Raises:
        ValueError: the device is missing, the text is damaged, or a run folder is of something else or damaged.
    """
    if every and every[0].scale.device == "gpu":
        import torch

        if not torch.cuda.is_available():
            raise ValueError("--scale gpu needs a GPU, and PyTorch sees none here")
    described(text)  # reads its manifest
    for folder in every:
        folder.check()
        if folder.is_done:
            scoring.check_trained(trained(folder), text)


def train(every: Sequence[RunFolder], what: str, until: float | None) -> None:
    """Train what is not trained, in turn. One run always begins and makes an update, so that reruns come to an end.

    Raises:
        Unfinished: the time budget is spent.
        ValueError: a training failed.
    """
    missing = [folder for folder in every if not folder.is_done]
    for folder in every:
        if folder.start is not None and folder.is_done and not folder.start.exists():
            folder.make_start()  # somebody removed it; the record counts the training time behind it
    for i, folder in enumerate(missing):
        out_of_time = i and is_past(until)
        if not out_of_time:
            print(f"run {i + 1} of {len(missing)}: {folder.run.name}", file=sys.stderr)
        if out_of_time or not folder.train(until):
            left = missing[i:]
            updates = sum(each.run.updates for each in left)
            raise Unfinished(f"{what}: the time budget is spent; {len(left)} runs are left of at most {updates:,} updates, "
                             f"{left[0].run.name} first; rerun the command to resume")  # fmt: skip


# Table and chart


def perplexity_table(record: Record) -> list[Table]:
    """Models with their final perplexity, its spread, and their ratio to RoBERTa's; context-free levels last."""
    final = [m for m in record.select("perplexity", seed=None) if m.model not in LEVELS]
    if not final:
        return []
    roberta = {m.n: m for m in final if (m.model or "").startswith("roberta")}
    single = next((m for m in final if m.model == "roberta"), None)

    def over(value: float, n: int | None) -> str:
        base = roberta.get(n, single) if len(roberta) > 1 else single
        return f"{value / base.value:.3f}" if base else ""

    rows = [[m.model, *spread_cells(m, 2), over(m.value, m.n)] for m in final]
    levels = record.select("context_free_bits")
    shared = record.configuration.get("n")
    for m in levels:
        name = "without context" + f", n={m.n}" * (m.n != shared)
        rows.append([name, f"{2**m.value:.2f}", "", "", over(2**m.value, shared)])
    for model, text in LEVELS.items():
        if m := record.find("perplexity", model=model):
            rows.append([text, f"{m.value:.2f}", "", "", over(m.value, None)])
    what = "validation perplexity at the end" if levels else "perplexity at the end, on held-out text"
    heads = ["model", "perplexity", "lowest to highest", "runs", "over RoBERTa's"]
    return [Table(heads, rows, f"{record.identifier}: {what}")]


LEVELS = {"context_free": "without context", "unigram": "by the frequency of each token alone",
          "valid_context_free": "without context, on the validation split"}  # fmt: skip
"""Labels in earlier records of what is measured of a text, not of a model."""
MAX_LINES = 10
"""A chart with more lines is unreadable; its numbers are in the table."""


def curves_chart(record: Record, title: str) -> list[Chart]:
    """Validation perplexity over updates, a line per model and seed."""
    by_model: dict[str, list] = {}
    for curve in record.curves:
        points = [(x, 2**y if curve.metric == "bits" else y) for x, y in curve.points]
        by_model.setdefault(curve.model, []).append(points)
    if not by_model or len(by_model) > MAX_LINES:
        return []
    shared = _shared_words([model.split(" ") for model in by_model]) if len(by_model) > 1 else ""
    colors = _paired_colors(record, list(by_model))
    series = [Series(model.removeprefix(shared), runs, model in colors and model.startswith("roberta"), colors.get(model))
              for model, runs in by_model.items()]  # fmt: skip
    level = record.find("context_free_bits", n=record.configuration.get("n"))
    old = record.find("perplexity", model="valid_context_free")
    value = 2**level.value if level else old and old.value
    levels = [(f"without context: {value:.0f}", value)] if value else []
    axis, note = _updates_axis(record)
    about = f" ({shared.strip()})" if shared else ""
    return [Chart(f"curves-{record.identifier}", title + about, axis, "validation perplexity", series, levels, log_y=True, note=note)]


def _shared_words(labels: list[list[str]]) -> str:
    """The words that all labels begin with."""
    words = []
    for column in zip(*(label[:-1] for label in labels)):
        if len(set(column)) > 1:
            break
        words.append(column[0])
    return "".join(word + " " for word in words)


def _paired_colors(record: Record, models: Sequence[str]) -> dict[str, int]:
    """Where each n has its own RoBERTa, both get one color."""
    n_of = {m.model: m.n for m in record.select("perplexity", seed=None)}
    controls = [model for model in models if model.startswith("roberta")]
    if len(controls) < 2:
        return {}
    colors = {model: i for i, model in enumerate(model for model in models if model not in controls)}
    by_n = {n_of[model]: color for model, color in colors.items()}
    return colors | {model: by_n.get(n_of[model], len(colors)) for model in controls}


def _updates_axis(record: Record) -> tuple[str, str]:
    """What the updates of a curve are counted from, and what a reader must know of its points."""
    runs = {name: run for name, run in record.configuration.get("runs", {}).items() if isinstance(run, dict) and "made" in run}
    if not runs:
        return "updates", ""
    note = ("A point is of a part of the validation split, in an order that depends on the seed; the tables' numbers are of all of it, "
            "with masks of one seed.")  # fmt: skip
    starts = [run.get("from") for run in runs.values()]
    before = {name: _total_updates(run.get("from")) for name, run in runs.items()}
    if not any(starts):
        return "updates, from scratch", note
    if len(set(before.values())) > 1:
        return "updates of the last stage", f"{note} Updates before it: {', '.join(f'{name} {u:,}' for name, u in before.items())}."
    updates = next(iter(before.values()))
    if all(start == starts[0] for start in starts):
        return f"updates after the common RoBERTa of {updates:,} updates", note
    if all(start["model"].get("k") is None for start in starts):
        return f"updates after a RoBERTa of {updates:,} updates", f"{note} Each n starts from the RoBERTa of that n; all have as many updates."
    return f"updates after {updates:,} of what each starts from", note


def _total_updates(run: Mapping[str, Any] | None) -> int:
    return 0 if run is None else run["updates"] + _total_updates(run.get("from"))
