"""What trained runs say: perplexities, curves, where they were trained, as an entry of the ledger.

    RUN/perplexity.json              of the last checkpoint, measured once
    RUNS/SCALE/rules/EXPERIMENT.json the rules of its claims from before its first run
    RUNS/SCALE/rules/EXPERIMENT-MODEL.json  those from before the first run of one of its models, where each is an entry of its own
"""

import json
import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..checkpoints.files import read_checkpoint, training_seconds
from ..evaluation.perplexity import SEED, measure
from ..files import atomic, read_json
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, read_config, training_provenance
from . import context_free
from .claims import CLAIMS
from .curves_of import validation
from .ledger import Entry, Measurement, sum_of
from .text import described, digest, shards_of, sums

PERPLEXITY = "perplexity.json"
MASKS = f"15 %, of seed {SEED}, on the validation split"


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Attributes:
        folder: of it.
        n, updates: of its configuration.
        start: the checkpoint that it started from, if any.
    """

    folder: Path
    n: int
    updates: int
    start: Optional[Path] = None

    @property
    def last(self) -> Path:
        """Its last checkpoint."""
        return self.folder / CHECKPOINTS / LAST

    @property
    def is_judged(self) -> bool:
        return (self.folder / PERPLEXITY).exists()


def entry_of(experiment: str, scale: str, models: Dict[str, List[Trained]], every: Sequence[Trained], text, device: str,
             configuration: Dict[str, Any], command: str, anew: bool = False) -> Entry:  # fmt: skip
    """The entry of an experiment whose runs are all trained.

    Args:
        models: the runs that are compared, by the names of the models, one a seed. The first model's n is that of the entry.
        every: they and all that they started from.
        device: ``cpu`` or ``gpu``, to judge on what is not judged.
        configuration: of the entry, besides n and the masks.
        anew: judge checkpoints that were judged before.

    Raises:
        ValueError: a curve is cut short, or a run does not say where it was trained.
    """
    numbers: Dict[str, Measurement] = {}
    curves: Dict[str, List[List[float]]] = {}
    for name, of_seed in models.items():
        found = [perplexity(run, text, device, anew) for run in of_seed]
        for what, unit in (("perplexity", "perplexity"), ("bits", "bits")):
            numbers[f"{name}: {what}"] = _over_seeds([f[what] for f in found], unit)
        for seed, (run, f) in enumerate(zip(of_seed, found), 1):
            numbers[f"{name}, seed {seed}: bits"] = Measurement(f["bits"], "bits", None, 1)
            curves[f"{name}, seed {seed}"] = [[u, round(v, 4)] for u, v in validation(run.folder, run.updates)]
    n = next(iter(models.values()))[0].n
    for length in sorted({of_seed[0].n for of_seed in models.values()}):
        name = "plateau: bits" if length == n else f"plateau n={length}: bits"
        numbers[name] = Measurement(context_free.measure(shards_of(text)[0], length).masked_bits, "bits", None, 1)
    commits = {name: training_provenance(*[run.folder for run in of_seed])["commit"] for name, of_seed in models.items()}
    claims = [claim for claim in CLAIMS.values() if claim.experiment == experiment]
    return Entry(
        identifier=f"{experiment}-{scale}",
        claim=" ".join(claim.says for claim in claims),
        paper={"value": None, "where": claims[0].where},
        measured=numbers,
        scale=scale,
        **where([run.folder for run in every]),
        configuration={**configuration, "n": n, "masks": MASKS, "experiment": experiment, "commits": commits},
        data=described(text),
        command=command,
        seconds=round(sum(training_seconds(run.last, run.start) for run in every), 1),
        curves=curves,
    )


def perplexity(run: Trained, text, device: str, anew: bool = False) -> Dict[str, Any]:
    """Of its last checkpoint on the validation split, with the masks of one seed; measured once, unless ``anew``, which keeps what was measured.

    Raises:
        ValueError: what was measured is damaged, or of another text or checkpoint; or as ``check_last`` and ``evaluation.perplexity.measure``.
    """
    path = run.folder / PERPLEXITY
    if anew or not run.is_judged:
        check_last(run)
        found = {**asdict(measure(run.last, shards_of(text)[0], seed=SEED, device={"gpu": "cuda"}.get(device, device))), **_of(run, text)}
        if anew:
            return found
        with atomic(path) as file:
            json.dump({**found, "seal": sum_of(found)}, file, indent=1)
    return judged(run, text)


def judged(run: Trained, text) -> Dict[str, Any]:
    """What was measured of a run.

    Raises:
        ValueError: it is damaged, or of another text or checkpoint.
    """
    path = run.folder / PERPLEXITY
    try:
        found = read_json(path)
        whole = found.pop("seal") == sum_of(found) and all(math.isfinite(found[name]) for name in ("perplexity", "bits"))
        of_it = {name: found[name] for name in ("checkpoint", "text")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is not what was written; remove it, and the same command measures it again")
    for name, here in _of(run, text).items():
        if of_it[name] != here:
            raise ValueError(f"{path} is of another {name}; remove it, and the same command measures it again")
    return found


def _of(run: Trained, text) -> Dict[str, Any]:
    """What a perplexity is of."""
    return {"checkpoint": digest(run.last), "text": sums(text)}


def check_trained(run: Trained, text) -> None:
    """Of a run that is done, before others are trained: has it what an entry needs?

    Raises:
        ValueError: its last checkpoint or its start is gone or damaged, it does not say where it was trained, or as ``judged``.
    """
    try:
        where([run.folder])
        check_last(run)
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}; move {run.folder} away, and the same command trains it anew") from None
    if run.start is not None and run.start.exists():
        try:
            read_checkpoint(run.start)
        except (OSError, ValueError) as error:
            raise ValueError(f"{error}; remove it, and the same command makes it again") from None
    if run.is_judged:
        judged(run, text)


def check_last(run: Trained) -> None:
    """
    Raises:
        ValueError: the last checkpoint is not of this run, or not of its last update.
    """
    there, cfg = read_checkpoint(run.last), read_config(run.folder)
    for section, key in (("model", "projected_dim"), ("model", "sharing"), ("model", "projection"), ("task", "tokens_per_sample"), ("common", "seed")):
        found, wanted = (_option(of_it, section, key) for of_it in (there["cfg"], cfg))
        if found != wanted:
            raise ValueError(f"{run.last} is of another run: its {section}.{key} is {found}, that of {run.folder} is {wanted}")
    if (updates := (there.get("optimizer_history") or [{}])[-1].get("num_updates")) != run.updates:
        raise ValueError(f"{run.last} is of update {updates}, and the run has {run.updates}")


def _option(cfg: Any, section: str, key: str) -> Any:
    """None where there is none; RoBERTa's has no k, and fairseq keeps its options another way."""
    of_it = cfg[section]
    value = of_it.get(key) if hasattr(of_it, "get") else getattr(of_it, key, None)
    return None if value is None else str(value)


def where(folders: Sequence[Path]) -> Dict[str, Any]:
    """``training_provenance``, for an entry, which must have a commit.

    Raises:
        ValueError: a run has none, or does not say.
    """
    if not all(training_provenance(folder)["commit"] for folder in folders):
        raise ValueError("a run was trained outside a git repository and does not say its commit; an entry of the ledger must")
    return training_provenance(*folders)


def remembered(experiment: str, runs: Path, model: str = "") -> Dict[str, str]:
    """The rules of the claims of an experiment, by their identifiers, as they were when its first run began here.

    Args:
        runs: folder of the runs of a scale.
        model: when the first run of this one began; for an experiment whose models are entries of their own.
    """
    path = rules_file(experiment, runs, model)
    if not path.exists():
        with atomic(path) as file:
            json.dump({claim.identifier: claim.rule for claim in CLAIMS.values() if claim.experiment == experiment}, file, indent=1)
    try:
        rules = read_json(path)
    except (OSError, ValueError):
        rules = None
    if not rules or not isinstance(rules, dict) or not all(isinstance(rule, str) for rule in rules.values()):
        raise ValueError(f"{path} is no file of rules by claim; take it back from where it was whole, or give another --runs")
    return rules


def rules_file(experiment: str, runs: Path, model: str = "") -> Path:
    """Where ``remembered`` keeps them."""
    return runs / "rules" / (experiment + f"-{model}" * bool(model) + ".json")


def _over_seeds(values: List[float], unit: str) -> Measurement:
    values = [float(f"{value:.6g}") for value in values]
    return Measurement(float(f"{statistics.median(values):.6g}"), unit, [min(values), max(values)] if len(values) > 1 else None, len(values))
