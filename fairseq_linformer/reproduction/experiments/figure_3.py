"""Perplexity while pretraining: a larger k lowers it (a, b), sharing costs little (c), n does not matter (d).

Models are compared by the ratio of their perplexities, with Student's 95 % interval over seeds. A claim holds if the
whole interval is within its limit, and does not hold if the whole interval is beyond it.

**a**, **b**: holds if each k, up to k = n, has at most the perplexity of the next smaller k. **a-par**, **b-par**:
holds if k = n / 4 has at most 1.05 times the perplexity of RoBERTa after as many updates. **c**: holds if headwise,
key-value and layerwise sharing each have at most 1.05 times the perplexity of no sharing, with the same initialization
of E and F. **d**: holds if each n has between 1 / 1.1 and 1.1 times the perplexity of the shortest n; RoBERTa must
have learned at each n. E and F of every n have the learning rate of the longest n, because the default decreases with
n.

Not enough evidence with fewer than three seeds, if RoBERTa is less than 2 bits or another model less than 1 bit below
a model without context at its n, or if a model has not converged: with one of its seeds the validation curve falls by
0.01 bits or more over the last 20 % of its updates. E and F have the default initialization; the verdict on the same
models with the authors' initialization and learning rate ("authors' start") is reported. (Written when earlier
measurements of these models were known.)

**On an encoder**: a head of masked language modeling is trained on the frozen Transformer. The Transformer with this
head, and the Linformers converted from it, are then trained for equally many updates on the same batches; models need
not have converged, and at least one of those compared, instead of each, must be 1 bit below a model without context.
**k**: a larger k has at most the perplexity of a smaller one. **par**, **par with W**: k = n / 4, without and with a
local window of 16, has at most 1.05 times the perplexity of the Transformer ("roberta" in the tables). **E and F**: k
= n / 4 with the window has at most the perplexity of k = 1 with it. (Written before a Linformer was measured; the
number of updates and the learning rate were chosen on the Transformer.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...checkpoints.identify import identify
from ...modules.rate import default_lr_scale
from ...training import local
from ...training.initial_checkpoint import open_initial_checkpoint
from ...training.job import TrainingJob, quote, run_name
from ...training.run_folder import DONE
from ..comparison import (
    at_most,
    curves,
    decreasing,
    perplexity_ratio,
    perplexity_table,
    pretrain,
    score_models,
    verdict,
)
from ..display import Panel, Table
from ..encoder import EncoderModel, open_encoder
from ..masked_head import train_head
from ..result import Inputs, Parts, Result, Rows, join
from ..run import CONFIG, Model, Trained, as_authors, compared_runs, convert, training_overrides
from ..scales import PAPER, SCALES, Compared
from ..statistics import Check, Verdict
from ..text import claim_runs, find_shards

TITLE, WHERE = "Figure 3", "Figure 3, section 5.1"
SAYS = "pretrained, a Linformer is nearly on par with RoBERTa, whatever the sharing and n"
NEARLY, SAME = 1.05, 1.1
"""Ratios of perplexities: at most the first is "nearly on par"; up to the second, either way, "about the same"."""
AUTHORS, WINDOW = ", authors' start", ", W=16"
"""Suffixes of labels: a model with the authors' start of E and F, or with a local window."""
SHARINGS = ("none", "headwise", "key-value", "layerwise")


ENCODER_SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "n": 32,
        "window": 4,
        "head": {"updates": 4, "batch_size": 2, "lr": 1e-3},
        "training": {"updates": 5, "batch_size": 2, "lr": 1e-4},
        "amp": False,
        "seeds": (1,),
    },
    "encoder": {
        "n": 512,
        "window": 16,
        "head": {"updates": 400, "batch_size": 8, "lr": 1e-3},
        "training": {"updates": 150, "batch_size": 8, "lr": 5e-4},
        "amp": True,
        "seeds": (1, 2, 3),
    },
}
"""The learning rate of training rises over a tenth of the updates, and decays linearly."""


def encoder_label(k: int, window: int = 0) -> str:
    return f"k={k}" + f", W={window}" * bool(window)


def encoder_models(scale: str) -> dict[str, Model]:
    """The Transformer; k = n / 4 with and without the window; n / 2, n / 8; and k = 1 with the window."""
    n, w = ENCODER_SIZES[scale]["n"], ENCODER_SIZES[scale]["window"]
    sizes = ((n // 4, w), (n // 4, 0), (n // 2, 0), (n // 8, 0), (1, w))
    return {"roberta": EncoderModel(n), **{encoder_label(k, v): EncoderModel(n, k, local_window=v) for k, v in sizes}}


_PANELS: dict[str, tuple[str, ...]] = dict.fromkeys("abcd", ("data",))
_ON_ENCODER: Parts = {
    scale: {f"encoder {label}": ("data", "encoder") for label in encoder_models(scale)} for scale in ENCODER_SIZES
}
PARTS: Parts = {
    "smoke": {**_PANELS, **_ON_ENCODER["smoke"]},
    "cpu": _PANELS,
    "encoder": _ON_ENCODER["encoder"],
    "gpu": _PANELS,
    "paper": _PANELS,
}


# Models


def models_of(panel: str, scale: Compared) -> dict[str, Model]:
    """The compared models of a panel by label."""
    if panel in "ab":
        return by_k(scale, scale.compared_n * (2 if panel == "b" else 1))
    return by_sharing(scale) if panel == "c" else by_length(scale)


def by_k(scale: Compared, n: int) -> dict[str, Model]:
    """On a single GPU also k = n / 4 with a local window, instead of the authors' start."""
    models = {"roberta": Model(n), **{f"k={n // d}": Model(n, n // d) for d in scale.k_divisors}}
    if scale == SCALES["gpu"]:
        return {**models, f"k={n // 4}{WINDOW}": Model(n, n // 4, local_window=16)}
    return with_authors(models)


def by_sharing(scale: Compared) -> dict[str, Model]:
    """All with the default start of layerwise sharing, whose single matrix does not support the others'."""
    n = scale.compared_n
    k = n // (2 if scale == PAPER else 4)
    models = {"roberta": Model(n), **{sharing: Model(n, k, sharing, start="average") for sharing in SHARINGS}}
    return with_authors(models)


def by_length(scale: Compared) -> dict[str, Model]:
    """A Linformer and a RoBERTa of each n; the latter shows the effect of n without E and F."""
    lengths, rate = scale.lengths, default_lr_scale(scale.lengths[-1])
    robertas = {"roberta" + f" n={n}" * (n > lengths[0]): Model(n) for n in lengths}
    return with_authors({**robertas, **{f"n={n}": Model(n, scale.fixed_k, rate=rate) for n in lengths}})


def with_authors(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models, and copies of those with k < n that have the authors' start and learning rate."""
    return {**models, **{label + AUTHORS: as_authors(m) for label, m in models.items() if m.k and m.k < m.n}}


# Runs


def run(part: str, scale: str, inputs: Inputs) -> Result:
    if part.startswith("encoder"):
        return run_on_encoder(part.removeprefix("encoder "), scale, inputs)
    if scale == "paper":
        return read_slurm_runs(part, inputs)
    longest = SCALES[scale].lengths[-1] if part == "d" else None
    return pretrain(part, scale, lambda s, seed: compared_runs(models_of(part, s), s, seed, longest), inputs)


def run_on_encoder(label: str, scale: str, inputs: Inputs) -> Result:
    """Train the head unless it exists, then the model with each seed."""
    sizes, text, model = ENCODER_SIZES[scale], inputs.text, encoder_models(scale)[label]
    encoder = open_encoder(inputs.encoder, model.n, inputs.runs.absolute() / scale / "figure_3")
    folder, shard = encoder.parent, find_shards(text, single=True)[0]
    claim_runs(folder, text)
    head, start = folder / "head.pt", folder / f"{model.name}-start.pt"
    if not head.exists():
        write_checkpoint(train_head(read_checkpoint(encoder), shard, model.n, amp=sizes["amp"], **sizes["head"]), head)
    checkpoint = read_checkpoint(head)
    if not start.exists():
        write_checkpoint(checkpoint if model.k is None else convert(checkpoint, model), start)
    seeds = []
    for seed in sizes["seeds"]:
        job = encoder_job(scale, start, shard, f"{model.name}-seed{seed}", seed)
        local.train(job)
        seeds.append(Trained(job.folder, model, start))
    result = score_models(f"encoder {label}", scale, {label: seeds}, seeds, inputs)
    result.configuration = {"encoder": checkpoint["provenance"]["imported"]}
    return result


def encoder_job(scale: str, checkpoint: Path, shard: Path, name: str, seed: int) -> TrainingJob:
    sizes, start = ENCODER_SIZES[scale], open_initial_checkpoint(identify(checkpoint), checkpoint.parent)
    updates = sizes["training"]["updates"]
    schedule = {**sizes["training"], "warmup": round(updates / 10), "validate": max(1, updates // 5)}
    overrides = (
        *training_overrides([shard], sizes["n"], seed, **schedule),
        f"common.amp={str(sizes['amp']).lower()}",
        f"checkpoint.finetune_from_model={quote(str(start.path))}",
        *start.overrides,
        f"++model.max_positions={start.max_positions}",
        "dataset.max_valid_steps=4",
        "dataset.num_workers=0",
        "optimizer._name=fused_adam",
    )
    return TrainingJob(str(CONFIG), overrides, 1, "cpu", str(checkpoint.parent), name)


# The paper's scale


def config_name(model: Model) -> str:
    """Name of the model's file in ``configs/pretrain/run``."""
    return f"n{model.n}-roberta" if model.k is None else f"n{model.n}-k{model.k}-{model.sharing}"


def slurm_overrides(model: Model, seed: int) -> list[str]:
    """Overrides of ``configs/pretrain/base.yaml``: a run of ``configs/pretrain/run``, with a seed."""
    words = [f"+run={config_name(model)}"]
    if model.k is not None and model == as_authors(model):
        words.append("+start=authors")
    elif model.k is not None:
        if model.start not in (None, model.default_start):
            words.append(f"++model.projection_init={model.start}")
        if model.rate not in (None, default_lr_scale(model.n)):
            words.append(f"++model.projection_lr_scale={model.rate!r}")
    return words + [f"common.seed={seed}"] * (seed != 1)


def slurm_jobs(panel: str, runs, tasks, device: str) -> list[TrainingJob]:
    """The Slurm array of a panel, the first seed of every model first."""
    models = [(model, seed) for seed in PAPER.seeds for model in models_of(panel, PAPER).values()]
    return [TrainingJob(str(CONFIG), tuple(slurm_overrides(*each)), 1, device, str(runs)) for each in models]


ARRAYS = {f"figure-3{panel}": partial(slurm_jobs, panel) for panel in "abcd"}


def read_slurm_runs(panel: str, inputs: Inputs) -> Result:
    """The result of runs that ``submit --array`` has trained."""
    models = {}
    for label, model in models_of(panel, PAPER).items():
        folders = [inputs.runs / run_name(CONFIG, slurm_overrides(model, seed)) for seed in PAPER.seeds]
        if missing := [folder for folder in folders if not (folder / DONE).exists()]:
            command = f"fairseq-linformer submit --array figure-3{panel} --runs {inputs.runs} task.data=FOLDER"
            raise ValueError(f"{missing[0]} is not trained; `{command}` submits all runs of panel {panel}")
        models[label] = [Trained(folder, model) for folder in folders]
    every = [run for seeds in models.values() for run in seeds]
    return score_models(panel, "paper", models, every, inputs)


# Verdicts


def split(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """The panels, and the parts on an encoder joined into one result."""
    panels = [result for result in results if not result.part.startswith("encoder")]
    others = [result for result in results if result not in panels]
    rows = Rows({str(row): row for row in join(others)}.values())  # each has the level of a model without context
    return panels, [replace(others[0], part="on an encoder", rows=rows)] if others else []


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    panels, on_encoder = split(results)
    found = [each for result in on_encoder for each in encoder_verdicts(result.rows, result.scale)]
    for panel in "abcd":
        rows = join(result for result in panels if result.part == panel)
        has_authors = any((row.model or "").endswith(AUTHORS) for row in rows)
        for build in RULES[panel]:
            ours = build(panel, rows, "")
            if has_authors:
                theirs = build(panel, rows, AUTHORS)
                remark = f"with the authors' start and learning rate: {theirs.outcome}; {theirs.numbers[0]}"
                ours = replace(ours, remarks=[*ours.remarks, remark])
            found.append(ours)
    return found


def k_verdict(panel: str, rows: Rows, start: str) -> Verdict:
    """The Linformers whose labels end with ``start``, in the order of k."""
    linformers = [row for row in rows.select("perplexity") if row.k and row.model == f"k={row.k}{start}"]
    models = [row.model for row in sorted(linformers, key=lambda row: row.k)]
    return verdict(rows, panel, "A larger k lowers the validation perplexity.", models, decreasing(rows, models))


def par_verdict(panel: str, rows: Rows, start: str) -> Verdict:
    n = rows[0].n if rows else 0
    model = f"k={n // 4}{start}"
    windowed = perplexity_ratio(rows, model + WINDOW, "roberta")
    checks, remarks = [at_most(rows, model, "roberta", NEARLY)], [str(windowed)] if windowed else []
    claim = "k = n / 4 is nearly on par with the Transformer."
    return verdict(rows, f"{panel}-par", claim, [model], checks, remarks=remarks)


def sharing_verdict(panel: str, rows: Rows, start: str) -> Verdict:
    none, *shared = (sharing + start for sharing in SHARINGS)
    checks = [at_most(rows, model, none, NEARLY) for model in shared]
    claim = "Sharing E and F, even one for all layers, costs almost no perplexity."
    return verdict(rows, panel, claim, [none, *shared], checks)


def length_verdict(panel: str, rows: Rows, start: str) -> Verdict:
    """The shortest n against the others; a RoBERTa of each n is the control."""
    measured = sorted(rows.select("perplexity"), key=lambda row: row.n)
    models = {row.model: row.n for row in measured if row.k is not None and row.model == f"n={row.n}{start}"}
    robertas = {row.n: row.model for row in measured if row.k is None}
    controls = {model: robertas.get(n, f"roberta n={n}") for model, n in models.items()}
    ratios = [perplexity_ratio(rows, model, control) for model, control in controls.items()]
    checks = [at_most(rows, model, next(iter(models)), SAME, 1 / SAME) for model in list(models)[1:]]
    claim = "At a fixed k the final perplexity is about the same for every n."
    remarks = [str(ratio) for ratio in ratios if ratio]
    return verdict(rows, panel, claim, list(models), checks, list(controls.values()), remarks)


RULES = {"a": (k_verdict, par_verdict), "b": (k_verdict, par_verdict), "c": (sharing_verdict,), "d": (length_verdict,)}


def encoder_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    n, window = ENCODER_SIZES[scale]["n"], ENCODER_SIZES[scale]["window"]
    by_k = [encoder_label(n // divisor) for divisor in (8, 4, 2)]
    quarter, windowed, control = encoder_label(n // 4), encoder_label(n // 4, window), encoder_label(1, window)
    larger = "Converted from an encoder, a larger k has a lower perplexity."
    par = "Converted from an encoder{}, k = n / 4 is nearly on par with it."
    more = "Converted from an encoder, next to a local window, E and F lower the perplexity."
    claims: list[tuple[str, str, list[str], list[Check]]] = [
        ("k", larger, by_k, decreasing(rows, by_k)),
        ("par", par.format(""), [quarter], [at_most(rows, quarter, "roberta", NEARLY)]),
        ("par with W", par.format(" with W"), [windowed], [at_most(rows, windowed, "roberta", NEARLY)]),
        ("E and F", more, [windowed, control], [at_most(rows, windowed, control)]),
    ]
    return [verdict(rows, *claim, at_equal_updates=True) for claim in claims]


def tables(results: Sequence[Result]) -> list[Table]:
    panels, on_encoder = split(results)
    return [
        *(perplexity_table(result, "On an encoder") for result in on_encoder),
        *(perplexity_table(result, f"Panel {result.part}, {result.scale}") for result in panels),
    ]


def chart(results: Sequence[Result]) -> list[Panel]:
    panels, on_encoder = split(results)
    drawn = [
        curves(result, f"{result.part}, {result.scale}", lambda label: not label.endswith(AUTHORS))
        for result in [*on_encoder, *panels]
    ]
    return [panel for panel in drawn if panel]
