"""A pretrained encoder converted to a Linformer and trained 150 updates more: perplexity by k, and with a local window.

Nothing is trained from scratch but a head of masked language modeling, on the frozen Transformer. The Transformer with
it, and the Linformers converted from it, are then trained for 150 updates on the same batches. They are compared by the
ratio of their perplexities, with Student's 95 % interval over seeds, against a limit. Not enough evidence with fewer
than three seeds, if the Transformer is less than 2 bits below a model without context, or if no compared Linformer is 1
bit below.

**k**: a larger k has at most the perplexity of a smaller one. **par**: k = n / 4 has at most 1.05 times the perplexity
of the Transformer ("RoBERTa" in the tables). **E and F**: k = n / 4 with a local window of 16 has at most the
perplexity of k = 1 with it. The number of updates and the learning rate were chosen on the Transformer, whose
perplexity was still falling at the end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...checkpoints.identify import identify
from ...training import local
from ...training.initial_checkpoint import open_initial_checkpoint
from ...training.job import TrainingJob, quote
from ...training.run_folder import check_run_folder
from ..comparison import (
    Limit,
    check_one_learned,
    compared_result,
    curves,
    decreasing,
    perplexity_table,
    perplexity_verdict,
    score_rows,
)
from ..encoder import open_encoder, train_head
from ..page import Panel, Table
from ..result import Inputs, Parts, Result, claim_runs, find_shards, join
from ..run import PRETRAINING, Model, Trained, convert_roberta, training_overrides
from ..verdict import Verdict

TITLE = "Converted encoder"
SAYS = "converted from an encoder, k = n / 4 is nearly on par at n = 512; with W better than k = 1"
NEARLY = 1.05
"""A ratio of perplexities that is "nearly on par"."""


SIZES: dict[str, dict[str, Any]] = {
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


def models_of(scale: str) -> list[Model]:
    """The Transformer; k = n / 4 with and without the window; n / 2, n / 8; and k = 1 with the window."""
    n, w = SIZES[scale]["n"], SIZES[scale]["window"]
    sizes = ((n // 4, w), (n // 4, 0), (n // 2, 0), (n // 8, 0), (1, w))
    return [Model(n), *(Model.graded(n, k, local_window=window) for k, window in sizes)]


def parts_of(scale: str) -> dict[str, Model]:
    """The model of each part."""
    return {model.label: model for model in models_of(scale)}


PARTS: Parts = {scale: dict.fromkeys(parts_of(scale), ("data", "encoder")) for scale in SIZES}


def run(inputs: Inputs) -> Result:
    """Train the head unless it exists, then the model with each seed."""
    sizes, text, model = SIZES[inputs.scale], inputs.data, parts_of(inputs.scale)[inputs.part]
    encoder = open_encoder(inputs.encoder, model.n, inputs.folder / "figure_3")
    folder, shard = encoder.parent, find_shards(text, single=True)[0]
    claim_runs(folder, text)
    head, initial = folder / "head.pt", folder / f"{model.name}-start.pt"
    if not head.exists():
        write_checkpoint(train_head(read_checkpoint(encoder), shard, model.n, amp=sizes["amp"], **sizes["head"]), head)
    checkpoint = read_checkpoint(head)
    if not initial.exists():
        write_checkpoint(checkpoint if model.k is None else convert_roberta(checkpoint, model), initial)
    rows, runs = [], []
    for seed in sizes["seeds"]:
        job = build_job(inputs.scale, initial, shard, f"{model.name}-seed{seed}", seed)
        check_run_folder(job)
        local.train(job)
        runs.append(Trained(job.folder, initial))
        rows += score_rows(model, seed, runs[-1], text)
    return compared_result(rows, runs, inputs, {"encoder": checkpoint["provenance"]["imported"]})


def build_job(scale: str, checkpoint: Path, shard: Path, name: str, seed: int) -> TrainingJob:
    sizes, initial = SIZES[scale], open_initial_checkpoint(identify(checkpoint), checkpoint.parent)
    updates = sizes["training"]["updates"]
    schedule = {**sizes["training"], "warmup": round(updates / 10), "validate": max(1, updates // 5)}
    overrides = (
        *training_overrides([shard], sizes["n"], seed, **schedule),
        f"common.amp={str(sizes['amp']).lower()}",
        f"checkpoint.finetune_from_model={quote(str(initial.path))}",
        *initial.overrides,
        f"++model.max_positions={initial.max_positions}",
        "dataset.max_valid_steps=4",
        "dataset.num_workers=0",
        "optimizer._name=fused_adam",
    )
    return TrainingJob(str(PRETRAINING), overrides, 1, "cpu", str(checkpoint.parent), name)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows, scale = join(results), results[0].scale if results else "encoder"
    transformer, windowed, quarter, half, eighth, control = models_of(scale)
    by_k = [eighth, quarter, half]
    larger = "A larger k has a lower perplexity."
    par = "k = n / 4 is nearly on par with the Transformer."
    more = "Next to a local window, E and F lower the perplexity."
    claims: list[tuple[str, str, list[Model], list[Limit]]] = [
        ("k", larger, by_k, decreasing(by_k)),
        ("par", par, [quarter], [Limit(quarter, transformer, NEARLY)]),
        ("E and F", more, [windowed, control], [Limit(windowed, control)]),
    ]
    return [perplexity_verdict(rows, *claim, precondition=check_one_learned) for claim in claims]


def tables(results: Sequence[Result]) -> list[Table]:
    models = models_of(results[0].scale)
    return [perplexity_table(join(results), "Validation perplexity after training", models, models[0])]


def chart(results: Sequence[Result]) -> list[Panel]:
    return [curves(join(results), "perplexity", models_of(results[0].scale))]
