"""docs/scale.md: what the planner says from 8 to 1,024 GPUs and from n = 512 to 65,536.

    python -m fairseq_linformer.planning.scaling [docs/scale.md]

Prints the page, or writes it.
"""

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Iterator, List, Optional

from ..files import write_lines
from . import formulas
from .configs import Run, read_run
from .gpus import GIB, GPUS, LINK_SHARE, Gpu
from .plan import UTILISATION, largest_batch, make_plan, memory_of

BASE = Path(__file__).parents[2] / "configs/pretrain/base.yaml"
LENGTHS = tuple(2**i for i in range(9, 17))
COUNTS = tuple(2**i for i in range(3, 11))
SHARINGS = ("none", "headwise", "key-value", "layerwise")
SLOW = 25.0
"""Gbit/s of a node: an ordinary network."""
MATTERS = 0.1
"""Of an update's time, or of the other parameters."""


def at(run: Run, n: int, sharing: Optional[str] = "layerwise") -> Run:
    """The run at another n and sharing, of the same tokens an update; None for RoBERTa."""
    tokens, sequences = run.tokens_of_update, max(1, run.sequences * run.positions // n)
    shape = replace(run.model.shape, max_positions=n, sharing=sharing or "layerwise")
    return replace(run, model=replace(run.model, shape=shape, linear=sharing is not None), positions=n, masked=-(-15 * n // 100),
                   sequences=sequences, update_freq=tokens // n // sequences, gpus=1)  # fmt: skip


def page() -> Iterator[str]:
    """Lines of Markdown."""
    run = read_run(BASE)
    yield "# From 8 to 1,024 GPUs, and from n = 512 to 65,536"
    yield ""
    yield from _prose(
        "Computed, not measured. `python -m fairseq_linformer.planning.scaling docs/scale.md` makes this page from `fairseq_linformer/planning`",
        "(formulas with their sources in `formulas.py`, data sheets in `gpus.py`), and a test compares them. `fairseq-linformer plan`",
        "does the same for any configuration.",
    )
    yield from _prose(
        f"The run is `configs/pretrain/base.yaml`: 12 layers of 768, k = 256, {run.tokens_of_update:,} tokens an update, {run.updates:,}",
        f"updates, fp16. Assumed are a utilisation of {UTILISATION:g} of each GPU's peak, and {LINK_SHARE:g} of what links and network of its",
        "DGX have. The micro-batch is the largest that fits and divides the update.",
    )
    for part in (_more_gpus, _all_reduce, _longer, _projections, _answers, _published):
        yield from part(run)


def _prose(*words: str) -> Iterator[str]:
    """A paragraph."""
    yield from textwrap.wrap(" ".join(words), 118, break_long_words=False, break_on_hyphens=False)
    yield ""


def _table(head: List[str], rows: List[List[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _more_gpus(run: Run) -> Iterator[str]:
    yield "## More GPUs, n = 512, layerwise"
    yield ""
    yield from _prose("Hours, and in brackets GPU-hours and the share of the time in which communication is not hidden.")
    kinds = [GPUS[name] for name in ("v100-16gb", "a100-80gb", "h100-80gb", "h200-141gb")]
    first, last, rows = kinds[0].name, kinds[-1].name, []
    for gpus in COUNTS:
        plans = [make_plan(run, gpu, gpus) for gpu in kinds]
        split = [f"{plan.sequences} x {plan.update_freq}" for plan in (plans[0], plans[-1])]
        cells = [f"{p.hours:,.1f} ({p.gpu_hours:,.0f}; {p.time.exposed / p.time.total:.0%})" for p in plans]
        rows.append([f"{gpus:,}", *split, *cells])
    yield from _table(["GPUs", f"batch_size x update_freq, {first}", f"the same, {last}", *(gpu.name for gpu in kinds)], rows)
    yield from _prose(
        "A GPU's share of an update shrinks until one micro-batch is left; from there on more GPUs compute less each and reduce as much,",
        "which is what the growing share shows. A small micro-batch also uses a GPU less well, which is not in these numbers.",
        f"n = 512 has {run.sequences_of_update:,} sequences an update, so 1,024 GPUs have {run.sequences_of_update // 1024} each;",
        f"n = 4,096 has {run.tokens_of_update // 4096}, and no more GPUs have work.",
    )


def _first(run: Run, gpu: Gpu, network: Optional[float]) -> str:
    """The fewest GPUs at which communication takes a tenth of the time."""
    for gpus in COUNTS:
        if run.sequences_of_update % gpus:
            break
        plan = make_plan(run, gpu, gpus, network=network)
        if plan.time.exposed > MATTERS * plan.time.total:
            return f"{gpus:,}"
    return "-"


def _all_reduce(run: Run) -> Iterator[str]:
    size, tied = formulas.parameters(run.model).learnt * 2, formulas.embedding_parameters(run.model) * 2
    yield "## Where the all-reduce begins to matter"
    yield ""
    yield from _prose(
        f"An update reduces {size / 1e6:,.0f} MB once, whatever batch_size and update_freq are. DistributedDataParallel hides it behind the",
        f"last micro-batch's backward pass, but for the {tied / 1e6:,.0f} MB of the embeddings: they are also the output's, and their",
        f"gradient is complete at the very end. The fewest GPUs at which more than {MATTERS:.0%} of the time is communication that is",
        "not hidden (`-`: with no more GPUs than there are sequences):",
    )
    kinds, rows = [GPUS[name] for name in ("v100-16gb", "a100-80gb", "h100-80gb")], []
    for sharing, n in (("layerwise", 512), ("headwise", 512), ("headwise", 4096), ("none", 4096)):
        there = at(run, n, sharing)
        reduced = formulas.parameters(there.model).learnt * 2 / 1e6
        cells = [_first(there, gpu, network) for gpu in kinds for network in (None, SLOW)]
        rows.append([f"{n:,}", sharing, f"{reduced:,.0f}", *cells])
    networks = [head for gpu in kinds for head in (f"{gpu.name}, {gpu.network:,.0f} Gbit/s", f"{SLOW:g} Gbit/s")]
    yield from _table(["n", "sharing", "MB reduced", *networks], rows)
    yield from _prose(
        "With the network of their DGX it begins where a GPU is left with a few sequences, on an ordinary network with the second to",
        "fourth node.",
    )


def _longer(run: Run) -> Iterator[str]:
    gpu, gpus = GPUS["h100-80gb"], 8
    yield f"## Longer sequences, {gpus} x {gpu.name}"
    yield ""
    yield from _prose(
        "Each update has as many tokens, so hours would stay if attention were free. Memory: GiB of activations for 65,536 tokens at",
        "once, stored, and recomputed with `+model.checkpoint_activations=true`.",
    )
    rows = []
    for n in LENGTHS:
        row = [f"{n:,}"]
        for there in (at(run, n, None), at(run, n, "headwise"), at(run, n, "layerwise")):
            batch = there.batch(65536 // n)
            kept = [formulas.activations(there.model, there.kernels, batch, again).saved / GIB for again in (False, True)]
            row += [f"{make_plan(there, gpu, gpus).hours:,.1f}", f"{kept[0]:.1f} / {kept[1]:.1f}"]
        rows.append(row)
    models = [head for what in ("RoBERTa", "headwise", "layerwise") for head in (f"{what}, hours", "GiB")]
    yield from _table(["n", *models], rows)
    yield from _prose(
        "Attention kernels that keep no weights (FlashAttention and its kin) have made RoBERTa's memory linear in n too; its time is",
        f"not. Without such a kernel it would keep {5 * run.model.shape.attention_heads} n bytes more for every token and layer: weights,",
        "their dropout mask, and what is left of them.",
    )


def _projections(run: Run) -> Iterator[str]:
    yield "## Where the parameters of E and F begin to matter"
    yield ""
    yield from _prose(
        "With k = 256, E and F have 256 n numbers each. In brackets the share of all parameters; GiB are weights, gradients and",
        "optimizer in fp16.",
    )
    rows = []
    for n in LENGTHS:
        row = [f"{n:,}"]
        for sharing in SHARINGS:
            there = at(run, n, sharing)
            inside, learnt = _inside(there), formulas.parameters(there.model).learnt
            row.append(f"{inside / 1e6:,.1f} M ({inside / learnt:.0%}), {_static(there):,.1f} GiB")
        rows.append(row)
    yield from _table(["n", *SHARINGS], rows)
    others = formulas.parameters(at(run, 512, None).model).learnt
    for sharing in SHARINGS:
        start, equal = (share * others / (_inside(at(run, 512, sharing)) / 512) for share in (MATTERS, 1))
        yield f"- `{sharing}`: a tenth of RoBERTa's {others / 1e6:.0f} M from n = {start:,.0f} on, as many at n = {equal:,.0f}."
    yield ""
    copied, one = (formulas.activations(at(run, 512, s).model, run.kernels, run.batch(16)).saved / GIB for s in ("none", "headwise"))
    yield from _prose(
        "`none` also copies its matrices for every sentence of a micro-batch (PyTorch's batched product does): they are activations",
        f"then, {copied:.1f} GiB instead of {one:.1f} for 16 sequences of 512.",
    )


def _inside(run: Run) -> int:
    """Parameters of E and F."""
    return sum(p.entries for p in formulas.projections_of(run.model))


def _static(run: Run) -> float:
    """GiB of weights, gradients and optimizer."""
    states = formulas.states(run.model, run.precision)
    return (states.weights + states.gradients + states.optimizer) / GIB


def _answers(run: Run) -> Iterator[str]:
    """Options, each with what it changes."""
    yield "## What answers it"
    yield ""
    v100 = GPUS["v100-16gb"]
    few = make_plan(run, v100, 8)
    stored, again = (memory_of(run, 64, 64, recomputed).activations / GIB for recomputed in (False, True))
    hours, longer = (make_plan(run, v100, 64, checkpointed=recomputed).hours for recomputed in (False, True))
    long, shared, none = at(run, 65536, "headwise"), at(run, 65536, "layerwise"), at(run, 4096, "none")
    sharded, efficient = replace(long, ddp="fully_sharded", wrap_from=0), replace(none, precision="memory-efficient fp16")
    whole, one, shards = (memory_of(r, 1, 16, True).total / GIB for r in (long, shared, sharded))
    fits = [largest_batch(shared, v100, 16, recomputed) for recomputed in (False, True)]
    adam, less = (memory_of(r, 1, 8, True).optimizer / GIB for r in (none, efficient))
    rows = [
        ["fewer GPUs than the recipe", "`optimization.update_freq`",
         f"the same update on 8 V100 in {few.update_freq} micro-batches of {few.sequences}; one all-reduce an update in any case"],
        ["activations do not fit", "`+model.checkpoint_activations=true`",
         f"64 sequences of 512: {stored:.1f} GiB become {again:.1f}, and hours on 64 V100 {hours:.1f} become {longer:.1f}"],
        ["E, F and their optimizer do not fit", "`model.sharing=layerwise`",
         f"n = 65,536, one sequence, recomputed: {whole:.1f} GiB become {one:.1f}; a V100 of 16 GB takes {fits[0]} sequences, "
         f"recomputed {fits[1]}"],
        ["the same, but headwise is wanted",
         "`distributed_training.ddp_backend=fully_sharded`, with checkpointing or `+model.min_params_to_wrap=0`",
         f"on 16 GPUs {whole:.1f} GiB become {shards:.1f}; layers are gathered and scattered for every micro-batch, so use it with "
         "update_freq 1"],
        ["the optimizer does not fit", "`common.memory_efficient_fp16=true`",
         f"`none` at n = 4,096: {adam:.1f} GiB become {less:.1f}; weights are kept in fp16 alone"],
        ["the all-reduce is slow", "a larger update, or fewer GPUs",
         "its time depends on parameters alone; `ddp_backend=pytorch_ddp` hides most of it, `legacy_ddp` nothing"],
    ]  # fmt: skip
    yield from _table(["if", "then", "which gives"], rows)
    yield from _prose(
        f"Sharding the base model brings little: its weights, gradients and optimizer are {_static(run):.1f} GiB. And where layers have",
        "fewer parameters than `min_params_to_wrap` (100 M if left out), `fully_sharded` shards the optimizer alone: the model is",
        "gathered as one.",
    )


def _published(run: Run) -> Iterator[str]:
    """How far the assumption is from a run that was published."""
    shape = replace(run.model.shape, layers=24, embed_dim=1024, ffn_embed_dim=4096, attention_heads=16)
    large = replace(run, model=formulas.Model(shape, linear=False), sequences=16, update_freq=8, gpus=64, updates=100_000)
    plan = make_plan(large, GPUS["v100-32gb"], 1024)
    share = plan.time.compute * UTILISATION / (24 * 3600 / large.updates - plan.time.exposed - plan.time.step)
    yield "## Against a published run"
    yield ""
    yield from _prose(
        "Liu et al. 2019, section 5: RoBERTa-large, 100,000 updates of 8,192 sequences of 512, 1,024 V100, \"approximately one day\".",
        f"Here it takes {plan.hours:.1f} hours at a utilisation of {UTILISATION:g}; one day is {share:.2f}. Their code had no fused attention",
        "and its network is not known. Give `--utilisation` what you measure: tokens a second of a short run on one GPU, divided by what",
        f"`plan --gpus 1` says, times {UTILISATION:g}.",
    )


def main() -> None:
    lines = list(page())[:-1]
    if len(sys.argv) == 1:
        print("\n".join(lines))
        return
    write_lines(sys.argv[1], lines)


if __name__ == "__main__":
    main()
