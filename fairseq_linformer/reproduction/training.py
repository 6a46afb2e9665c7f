"""Experiments that pretrain models and compare their validation perplexities: plan, record, table, chart."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..checkpoints.files import training_seconds
from . import context_free, scoring
from .claim import Claim
from .comparisons import newest_record, plan_number, record_name
from .experiment import Experiment, Unfinished
from .inputs import Inputs, is_past
from .paper_scale import PaperFigure
from .records import TRAINING, Curve, Measurement, Paper, Record, ScaleName
from .report.charts import Chart
from .report.tables import Table
from .run_folders import RunFolder, check_clean_runs, check_folders, finished_run, train, training_of
from .runs import Models, Run, in_training_order
from .scales import NAMES, SCALES, Scale
from .scoring import FinishedRun
from .text import describe_text, find_shards
from .training_tables import curves_charts, perplexity_table

SHARED_FIELDS = ("layers", "width", "heads", "tokens", "lr", "warmup", "validate", "precision")
"""The fields of ``Scale`` that all runs of a scale share."""
TOLERANCE = {"perplexity": 0.01, "bits": 0.01}
"""On the same machine and versions a repeated training gives the same numbers; other processors round differently."""


class TrainingExperiment(Experiment):
    """
    Args:
        models: the compared models of a scale.
        array: at the paper's scale, the overrides of ``configs/pretrain/base.yaml`` that make each model; trained
            through Slurm (``paper_scale``).
        earlier_plans: how each earlier plan differed. Their records stay, and new ones get a new identifier.
    """

    reads = ("data",)

    def __init__(
        self,
        name: str,
        title: str,
        claims: Sequence[Claim],
        models: Callable[[Scale], Models],
        array: Mapping[str, Sequence[str]] | None = None,
        earlier_plans: Sequence[str] = (),
    ):
        self.name, self.title, self.claims, self.models = name, title, tuple(claims), models
        self.plan_number = len(earlier_plans) + 1
        self.scales = (*SCALES, *["paper"] * bool(array))
        self.paper_scale = PaperFigure(self, self.record, array) if array else None

    def plan(self, scale: Scale) -> dict[str, list[Run]]:
        """The compared runs by model, one per seed."""
        return {model: [run(scale, seed) for seed in scale.seeds] for model, run in self.models(scale).items()}

    def configuration(self, scale: Scale) -> dict[str, Any]:
        """The plan stored in a record: sizes, seeds, and the training of each model."""
        runs = {model: seed_runs[0].plan() for model, seed_runs in self.plan(scale).items()}
        return {"sizes": sizes_of(scale), "seeds": scale.seeds, "runs": runs}

    def cost(self, scale: str) -> str:
        if scale == "paper":
            return "a Slurm array, 64 GPUs per run"
        runs, sizes = in_training_order(self.plan(SCALES[scale])), SCALES[scale]
        updates = sum(run.updates for run in runs)
        return f"{len(runs)} runs, {updates:,} updates, {updates * sizes.tokens / 1e6:,.1f} M tokens"

    def _is_of_earlier_plan(self, record: Record) -> bool:
        number = plan_number(record) if record.experiment == self.name and record.made_by == "reproduce" else None
        return number is not None and number < self.plan_number

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        check_clean_runs(self.folders(scale, inputs), scale)
        self._train(scale, inputs)
        return [self.make_record(scale, inputs, command)]

    def folders(self, scale: str, inputs: Inputs) -> list[RunFolder]:
        """Folders of its runs and of all runs they start from, in training order."""
        runs = in_training_order(self.plan(SCALES[scale]))
        return [RunFolder(run, SCALES[scale], inputs.folder / scale, inputs.data) for run in runs]

    def _train(self, scale: str, inputs: Inputs) -> None:
        until = inputs.deadline()
        folders = self.folders(scale, inputs)
        check_folders(folders, inputs.data)
        train(folders, self.name, until)
        compared = {run for seed_runs in self.plan(SCALES[scale]).values() for run in seed_runs}
        self.score([folder for folder in folders if folder.run in compared], inputs, until)

    def score(self, compared: Sequence[RunFolder], inputs: Inputs, until: float | None) -> None:
        """Measure the perplexity of each compared run that has none.

        Raises:
            Unfinished: the time budget is spent.
        """
        unscored = [folder for folder in compared if not finished_run(folder).is_scored]
        for i, folder in enumerate(unscored):
            if i and is_past(until):
                left = f"{len(unscored) - i} trained models are left to score"
                raise Unfinished(f"{self.name}: the time budget is spent; {left}; rerun the command to resume")
            scoring.measure_perplexity(finished_run(folder), inputs.data, folder.scale.device)

    def make_record(self, scale: str, inputs: Inputs, command: str) -> Record:
        """The record of runs that are all trained."""
        folders = {folder.run: folder for folder in self.folders(scale, inputs)}
        plan = self.plan(SCALES[scale])
        models = {model: [finished_run(folders[run]) for run in seed_runs] for model, seed_runs in plan.items()}
        all_runs = [finished_run(folder) for folder in folders.values()]
        return self.record(
            scale,
            models,
            all_runs,
            inputs.data,
            SCALES[scale].device,
            {**self.configuration(SCALES[scale]), TRAINING: training_of([*folders.values()])},
            command,
            TOLERANCE,
        )

    def record(
        self,
        scale: str,
        models: Mapping[str, Sequence[FinishedRun]],
        all_runs: Sequence[FinishedRun],
        text,
        device: str,
        configuration: Mapping[str, Any],
        command: str,
        tolerance: dict[str, float] | None = None,
    ) -> Record:
        """The record of an experiment whose runs are all trained.

        Args:
            models: the compared runs by label, one per seed. The n of the first is that of the record.
            all_runs: they and all that they started from.
            device: ``cpu`` or ``cuda``, for scoring the runs that have no perplexity yet.
            configuration: of the record, besides n and the masks.

        Raises:
            ValueError: a curve ends early, or a run has no provenance.
        """
        measurements: list[Measurement] = []
        curves: list[Curve] = []
        for model, seed_runs in models.items():
            at = {"model": model, "n": seed_runs[0].n, **_model_places(configuration, model)}
            found = [scoring.measure_perplexity(run, text, device) for run in seed_runs]
            measurements += scoring.perplexity_measurements(found, range(1, len(found) + 1), **at)
            curves += [scoring.bits_curve(run, model, seed) for seed, run in enumerate(seed_runs, 1)]
        for n in sorted({seed_runs[0].n for seed_runs in models.values()}):
            level = context_free.measure(find_shards(text)[0], n).masked_bits
            measurements.append(Measurement(metric="context_free_bits", unit="bits", value=level, n=n))
        commits = {
            model: scoring.provenance([run.folder for run in seed_runs])["commit"]
            for model, seed_runs in models.items()
        }
        return Record(
            identifier=record_name(self.name, scale, self.plan_number),
            experiment=self.name,
            made_by="reproduce",
            claim=" ".join(claim.statement for claim in self.claims),
            paper=Paper(where=self.claims[0].where),
            measurements=measurements,
            curves=curves,
            scale=cast(ScaleName, scale),
            **scoring.provenance([run.folder for run in all_runs]),
            configuration={
                **configuration,
                "n": next(iter(models.values()))[0].n,
                "masks": scoring.MASKS,
                "commits": commits,
            },
            data=describe_text(text),
            command=command,
            seconds=round(sum(training_seconds(run.last_checkpoint, run.initial_checkpoint) for run in all_runs), 1),
            tolerance=tolerance,
        )

    def shown(self, records: Sequence[Record], used: Sequence[str]) -> list[Record]:
        replaced = self._replaced(records)
        return [record for record in super().shown(records, used) if record not in replaced]

    def select_earlier(self, records: Sequence[Record]) -> list[Record]:
        """Also records of earlier plans, once there is a newer one of their scale."""
        return [*super().select_earlier(records), *self._replaced(records)]

    def _replaced(self, records: Sequence[Record]) -> list[Record]:
        newest = {scale: newest_record(records, self.name, scale) for scale in NAMES}
        return [r for r in records if self._is_of_earlier_plan(r) and r is not newest[r.scale]]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [table for record in records for table in perplexity_table(record)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in curves_charts(record, f"{self.title}, {record.scale} scale")]

    def earlier_charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in curves_charts(record, record.identifier)]


def _model_places(configuration: Mapping[str, Any], model: str) -> dict[str, Any]:
    """k and sharing of a model, from its plan."""
    plan = configuration.get("runs", {}).get(model, {}).get("model", {})
    return {"k": int(plan["k"]), "sharing": plan["sharing"]} if plan.get("k") else {}


def sizes_of(scale: Scale) -> dict[str, Any]:
    return {name: getattr(scale, name) for name in SHARED_FIELDS}
