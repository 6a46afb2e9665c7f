"""How a Linformer begins: E and F as window averages, converted from a RoBERTa, or grown from a shorter n.

At scale cpu models are converted from RoBERTas (2,000 updates at n = 16, n doubled to 64 or 128 with 400 updates each),
and trained for 500 updates more. Only models named so in the claims are trained from scratch.

All but *projections* compare after equally many updates; not enough evidence if the 95 % interval over seeds contains
the limit, with fewer than three seeds, if RoBERTa is less than 2 bits below a model without context, or if no compared
model is 1 bit below. For *projections* every model must be 1 bit below, and must have converged, as for Figure 3.

**starts**: E and F as window averages have at most the perplexity of the authors' N(0, 0.02), at the default learning
rate of E and F and at that of the other weights. **growing**: doubling n repeatedly has at most the perplexity of
growing in one step, and of training at the long n from scratch. **warm start**: a converted RoBERTa has at most the
perplexity of a Linformer trained from scratch. **projections**: learned E and F have at most the perplexity of
mean-pool, max-pool and conv, which section 4 of the paper names and does not measure; linear and conv have the same
initialization. In the tables a model ends with its origin: "converted" from a RoBERTa, or "continued" from its own
training from scratch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..comparison import Limit, check_all_converged, check_one_learned, perplexity_table, perplexity_verdict, pretrain
from ..page import Table
from ..result import Inputs, Parts, Result, join
from ..run import STAGGERED, TRUNK_SIZES, Model, Run, TrunkSizes, as_authors, compared_run, trunk
from ..verdict import Verdict

TITLE = "Initialization"
SAYS = "window averages, conversion of a RoBERTa, and growing n"
FULL_RATE = "normal at the full rate"
"""The authors' E and F: normal, with the learning rate of the other parameters."""
POOLED = ("mean-pool", "max-pool", "conv")


def compare(models: Mapping[str, Model], sizes: TrunkSizes, seed: int) -> dict[str, Run]:
    """The run of each model, by what this experiment calls it."""
    return {name: compared_run(model, sizes, seed) for name, model in models.items()}


def starts(sizes: TrunkSizes, seed: int) -> dict[str, Run]:
    default = Model(sizes.compared_n, sizes.compared_n // 4)
    models = {"roberta": Model(sizes.compared_n)}
    models |= {start: replace(default, start=start) for start in ("average", "normal", STAGGERED)}
    return compare({**models, FULL_RATE: as_authors(default)}, sizes, seed)


def growing(sizes: TrunkSizes, seed: int) -> dict[str, Run]:
    """RoBERTas of one n, each with the same total number of updates."""
    model = Model(2 * sizes.compared_n)
    updates = (model.n // sizes.n).bit_length() * sizes.grown - sizes.grown
    return {
        "roberta": trunk(sizes, model.n, seed),
        "at once": Run(model, seed, "grown-at-once", updates, trunk(sizes, sizes.n, seed)),
        "from scratch": Run(model, seed, "long-scratch", sizes.base + updates),
    }


def warm_start(sizes: TrunkSizes, seed: int) -> dict[str, Run]:
    """Equal schedules and total updates: a RoBERTa that is converted halfway, or a Linformer from the beginning."""
    model = Model(sizes.n, sizes.n // 2)
    scratch = Run(model, seed, "scratch", sizes.base)
    return {
        **compare({"roberta": Model(sizes.n), "converted": model}, sizes, seed),
        "from scratch": Run(model, seed, "continued", sizes.compared, scratch, decays=True),
    }


def projections(sizes: TrunkSizes, seed: int) -> dict[str, Run]:
    """Linear and conv have the same start, that of conv, which has fewer; pooling learns nothing."""
    n = sizes.compared_n
    models = {"roberta": Model(n), "linear": Model(n, n // 4, start="average")}
    return compare({**models, **{kind: Model(n, n // 4, projection=kind) for kind in POOLED}}, sizes, seed)


COMPARED: Mapping[str, Callable[[TrunkSizes, int], dict[str, Run]]] = {
    "starts": starts,
    "growing": growing,
    "warm start": warm_start,
    "projections": projections,
}
PARTS: Parts = {scale: dict.fromkeys(COMPARED, ("data",)) for scale in ("smoke", "cpu")}


def run(inputs: Inputs) -> Result:
    return pretrain(lambda sizes, seed: COMPARED[inputs.part](sizes, seed).values(), inputs)


CLAIMS: Mapping[str, str] = {
    "starts": "At equal updates, E and F initialized as window averages beat the authors' N(0, 0.02), at either rate.",
    "growing": "At equal updates, doubling n repeatedly beats growing in one step and training from scratch.",
    "warm start": "At equal updates, a converted RoBERTa has a lower perplexity than a Linformer trained from scratch.",
    "projections": "Learned E and F have a lower perplexity than pooling and convolution.",
}
AT_MOST = {
    "starts": ("average", ("normal", FULL_RATE)),
    "growing": ("roberta", ("at once", "from scratch")),
    "warm start": ("converted", ("from scratch",)),
    "projections": ("linear", POOLED),
}
"""The model that must have at most the perplexity of the others."""


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    sizes, found = TRUNK_SIZES[results[0].scale if results else "cpu"], []
    for part, claim in CLAIMS.items():
        runs, (best, others) = COMPARED[part](sizes, 1), AT_MOST[part]
        compared = [runs[name] for name in (best, *others)]
        limits = [Limit(compared[0], other) for other in compared[1:]]
        precondition = check_all_converged if part == "projections" else check_one_learned
        found.append(
            perplexity_verdict(join(results, part), part, claim, compared, limits, [runs["roberta"]], precondition)
        )
    return found


def tables(results: Sequence[Result]) -> list[Table]:
    found = []
    for result in results:
        roberta, *others = COMPARED[result.part](TRUNK_SIZES[result.scale], 1).values()
        title = f"{result.part.capitalize()}, {result.scale}: final validation perplexity"
        found.append(perplexity_table(result.rows, title, [roberta, *others], roberta))
    return found
