"""What a RoBERTa loses when it is converted to a Linformer and not trained: ``convert from-roberta``.

Usage:

    fairseq-linformer reproduce conversion --scale cpu --data TEXT
    fairseq-linformer reproduce conversion-long --scale cpu --data TEXT

Files, in the folder of each RoBERTa:

    RUN/converted.json    perplexity of each converted model, sealed
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...evaluation.perplexity import SEED, compute_perplexity
from ...files import write_sealed
from ...machine import current_commit
from .. import scoring
from ..claim import Claim
from ..comparisons import comparison
from ..experiment import Unfinished
from ..inputs import Inputs, is_past
from ..records import Record
from ..run_folders import RunFolder
from ..runs import Model, Run, convert, trunk
from ..scales import SCALES, Scale
from ..text import checksums, digest, find_shards
from .local_window import K_DIVISORS, LOCAL_WINDOWS, WIDEST, LocalWindowExperiment, label, quarter_is_near

CONVERTED = "converted.json"


class ConversionExperiment(LocalWindowExperiment):
    """RoBERTas of one n, each converted without training to Linformers of several k and W.

    Args:
        length: n at a scale.
    """

    def __init__(self, name: str, title: str, claims: Sequence[Claim], length: Callable[[Scale], int]):
        def roberta(scale: Scale, seed: int) -> Run:
            return trunk(scale, length(scale), seed)

        super().__init__(name, title, claims, lambda scale: {"roberta": roberta})
        self.length = length

    def conversions(self, scale: Scale) -> dict[str, Model]:
        """The Linformers by label; the last k is n, which changes nothing."""
        n = self.length(scale)
        ks = (1, *(n // divisor for divisor in (*K_DIVISORS, 1)))
        return {
            label(k, local_window): Model(n, k, local_window=local_window)
            for k in ks
            for local_window in LOCAL_WINDOWS
            if local_window < n
        }

    def configuration(self, scale: Scale) -> dict[str, Any]:
        conversions = {name: model.describe() for name, model in self.conversions(scale).items()}
        return {**super().configuration(scale), "conversions": conversions}

    def score(self, compared: Sequence[RunFolder], inputs: Inputs, until: float | None) -> None:
        super().score(compared, inputs, until)
        for folder in compared:
            self._score_conversions(folder, inputs, until)

    def make_record(self, scale: str, inputs: Inputs, command: str) -> Record:
        record = super().make_record(scale, inputs, command)
        folders = [
            folder for folder in self.folders(scale, inputs) if folder.run in self.plan(SCALES[scale])["roberta"]
        ]
        scores = [self._score_conversions(folder, inputs, None) for folder in folders]
        measurements = list(record.measurements)
        for name, model in self.conversions(SCALES[scale]).items():
            at: dict[str, Any] = {"model": name, "n": model.n, "k": model.k, "sharing": model.sharing}
            model_scores = [score[name] for score in scores]
            measurements += scoring.perplexity_measurements(model_scores, range(1, len(scores) + 1), **at)
        commits = [*record.commit.split("; "), *(found["commit"] for score in scores for found in score.values())]
        return record.copy_with(measurements=measurements, commit="; ".join(dict.fromkeys(commits)))

    def _score_conversions(self, folder: RunFolder, inputs: Inputs, until: float | None) -> dict[str, dict[str, Any]]:
        """``perplexity``, ``bits`` and ``commit`` of each converted model, measured once.

        Raises:
            Unfinished: the time budget is spent.
            ValueError: the file is damaged, or of another text or checkpoint.
        """
        path = folder.path / CONVERTED
        source = {"checkpoint": digest(folder.last_checkpoint), "text": checksums(inputs.data)}
        scores = _read_scores(path, source)
        conversions = self.conversions(folder.scale)
        missing = [name for name in conversions if name not in scores]
        checkpoint = read_checkpoint(folder.last_checkpoint) if missing else {}
        for i, name in enumerate(missing):
            if i and is_past(until):
                left = f"{len(missing) - i} converted models are left to score"
                raise Unfinished(f"{self.name}: the time budget is spent; {left}; rerun the command to resume")
            with tempfile.TemporaryDirectory() as temporary:
                converted = Path(temporary) / "converted.pt"
                write_checkpoint(convert(checkpoint, conversions[name], folder.run.seed), converted)
                shard = find_shards(inputs.data)[0]
                found = asdict(compute_perplexity(converted, shard, seed=SEED, device=folder.scale.device))
            scores[name] = {"perplexity": found["perplexity"], "bits": found["bits"], "commit": current_commit()}
            write_sealed(path, {**source, "scores": scores})
        return scores


def _read_scores(path: Path, source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    scores: dict[str, dict[str, Any]] = scoring.read_scores(path, source, ("scores",))["scores"]
    return scores


def experiment(name: str, title: str, where: str, limit: float, length: Callable[[Scale], int]) -> ConversionExperiment:
    claim = Claim(
        name,
        where,
        f"Converted without training, k = n / 4 with a local window of {WIDEST} is near the Transformer.",
        f"Holds if the converted model with k = n / 4 and W = {WIDEST} has at most {limit:g} times the perplexity "
        "of the RoBERTa it is made of; does not hold if it has more. Not enough evidence if the 95 % interval of the "
        "ratio over seeds contains the limit, with fewer than 3 seeds, if RoBERTa is less than 2 bits below a model "
        "without context, or the converted model less than 1 bit. (Written before the first measurement.)",
        comparison(name, quarter_is_near(limit)),
    )
    return ConversionExperiment(name, title, [claim], length)


EXPERIMENTS = (
    experiment(
        "conversion",
        "Conversion without training",
        "this project: convert from-roberta --local-window",
        1.05,
        lambda scale: scale.compared_n,
    ),
    experiment(
        "conversion-long",
        "Conversion without training at 8 times the n",
        "this project: convert from-roberta --local-window, at 8 times the n",
        1.15,
        lambda scale: 8 * scale.compared_n,
    ),
)
