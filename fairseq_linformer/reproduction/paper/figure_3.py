"""Pretrained from scratch, a larger k lowers the perplexity (a, b), sharing costs little (c), n does not matter (d).

At each budget of updates every model has a learning rate that has decayed to zero, and the models of a seed and n have
seen the same batches with the same masks. Models are compared by the ratio of their perplexities on the whole
validation split, with Student's 95 % interval over seeds. A claim holds if the whole interval is within its limit, and
does not hold if the whole interval is beyond it. It is decided at the largest budget at which every compared model has
three seeds and, with each of them, RoBERTa is 2 bits per predicted token, and every other model 1 bit, below a model
without context at its n. Not enough evidence if there is no such budget; not measured if no two models of the rule have
a seed in common. Models need not have converged, so a table has the ratio to RoBERTa at every budget, and its trend:
between the last two budgets at which both have learned so much it falls, stays or grows, by the interval of the paired
difference; it stays if the interval is between 1 / 1.05 and 1.05, and is unclear otherwise.

At scale cpu models have 2 layers of 128, and 1,000 sentencepieces of 6,633 articles of Wikipedia, in single precision;
a perplexity is per piece. k = n / 4 = 16 is smaller than any k of the paper, to which k matters more than n / k
(section 5.2), so the verdicts are about this size. The models of Table 2 are trained to 24,000 updates, the others to
12,000, so that the hours suffice for all. (For RoBERTa and k = n / 4 this was decided after "par" and one seed of k = n
/ 2 were measured at n = 64, and before any other model was. The two models with a window were at first trained to
12,000: k = n / 4 then had 0.969 [0.902, 1.041] times the perplexity of k = 1, not enough evidence. Only then, on
2026-11-30, two seeds of each were trained on to 24,000: the ratio was 0.987 and 0.958. No third one could decide "E and
F" or "par with W" by the interval over three seeds, so the third seed was not trained on.)

**k** (a): holds if k = n / 4 has at most the perplexity of k = n / 8, and k = n / 2 that of k = n / 4. **par** (a; b,
at a larger n): k = n / 4 has at most 1.05 times the perplexity of RoBERTa. **sharing** (c; the paper states no k): at k
= n / 4, headwise, key-value and layerwise sharing each have at most 1.05 times the perplexity of no sharing; E and F
start as plain averages, the default of layerwise sharing. **n** (d): at a fixed k each longer n has between 1 / 1.1 and
1.1 times the perplexity of the shortest; the same ratio between RoBERTas of these n is reported. **E and F**: k = n / 4
with a local window has at most the perplexity of k = 1 with it. **par with W**: also, it has at most 1.05 times the
perplexity of RoBERTa. **learned** (added on 2026-11-30, before its first run, because far-token recall had shown how
much averages can do): k = n / 4 has at most the perplexity of k = n / 4 whose E and F stay the averages over windows
that they start as (those of E overlap), close to the mean pooling of the paper's section 4.

E and F have the default start and learning rate; "normal" in the tables are the authors'. Curves over updates are
before the decay of the learning rate. The learning rate of the models was chosen on RoBERTa. (Written before the first
run; a trial with one seed had shown that k = n / 4 is ahead of RoBERTa while both leave the plateau of a model without
context, and behind it later.)
"""

from collections.abc import Sequence
from dataclasses import replace

from ...training.job import run_name
from ...training.run_folder import DONE
from ..comparison import (
    Limit,
    bits_by_seed,
    curves,
    perplexity_table,
    perplexity_verdict,
    pretrain,
    pretrained_result,
    ratio_table,
    ratios_over_budgets,
)
from ..page import Panel, Table
from ..result import Inputs, Parts, Result, Rows, join
from ..run import AUTHORS, FIXED, PRETRAINING_YAML, Model, Sizes, Trained
from ..verdict import Verdict

TITLE, WHERE = "Figure 3", "Figure 3, section 5.1"
SAYS = "pretrained, nearly on par with RoBERTa; sharing costs almost nothing, and n nothing at a fixed k"
NEARLY, SAME = 1.05, 1.1
"""Ratios of perplexities: at most the first is "nearly on par"; up to the second, either way, "about the same"."""
SHARINGS = ("none", "headwise", "key-value", "layerwise")
PAPER_BUDGET, PAPER_SEEDS = 250_000, (1, 2, 3)
"""The updates and seeds of ``configs/pretrain``."""

SIZES: dict[str, Sizes] = {
    # Shows that the code runs: nothing is learned and no verdict follows.
    "smoke": Sizes(
        device="cpu",
        layers=1,
        width=16,
        heads=2,
        tokens=128,
        lr=1e-3,
        warmup=2,
        validate=4,
        seeds=(1,),
        budgets=(5, 10),
    ),
    "cpu": Sizes(
        device="cpu",
        layers=2,
        width=128,
        heads=4,
        tokens=2048,  # a core trains 6 to 10 updates per second
        lr=1e-3,
        warmup=250,
        validate=400,
        seeds=(1, 2, 3),
        budgets=(6000, 12000, 24000),
    ),
    # One H100, at n and k of the paper; never run.
    "gpu": Sizes(
        device="cuda",
        layers=6,
        width=384,
        heads=6,
        tokens=16384,
        lr=1e-3,
        warmup=500,
        validate=250,
        seeds=(1,),
        budgets=(2500, 5000, 10000),
        bf16=True,
    ),
}
"""Sizes of each scale but the paper's, whose runs Slurm trains with ``configs/pretrain``."""


# Models


def by_k(n: int, window: int = 0) -> list[Model]:
    """RoBERTa, k = n / 2, n / 4, n / 8, and n / 4 with the authors' start and rate; with a window also n / 4 and k = 1
    with it, and n / 4 without it whose E and F are not trained."""
    quarter, authors = Model(n, n // 4), Model(n, n // 4, start=AUTHORS)
    controls = [Model(n, n // 4, local_window=window), Model(n, 1, local_window=window), Model(n, n // 4, start=FIXED)]
    return [Model(n), Model(n, n // 2), quarter, Model(n, n // 8), *(controls if window else []), authors]


def by_sharing(n: int, k: int) -> list[Model]:
    """All with the same start of E and F."""
    return [Model(n, k, sharing, start="average") for sharing in SHARINGS]


def by_length(lengths: Sequence[int], k: int) -> list[Model]:
    """A Linformer and a RoBERTa of each n."""
    return [model for n in lengths for model in (Model(n), Model(n, k))]


PANELS: dict[str, dict[str, list[Model]]] = {
    "smoke": {"a": by_k(16, 1), "c": by_sharing(16, 4), "d": by_length((16, 32), 8)},
    "cpu": {"a": by_k(64, 4), "c": by_sharing(64, 16), "d": by_length((64, 128, 256), 32)},
    "gpu": {"a": by_k(512, 16)},
    "paper": {"a": by_k(512), "b": by_k(1024), "c": by_sharing(512, 256), "d": by_length((512, 1024, 2048, 4096), 256)},
}
"""The compared models of each scale; one can be in several panels."""


def models_of(scale: str) -> list[Model]:
    """The models of all panels, each once."""
    return list(dict.fromkeys(model for models in PANELS[scale].values() for model in models))


def parts_of(scale: str) -> dict[str, tuple[Model, int]]:
    """The model and the seed of each part, the first seed of every model first."""
    seeds = SIZES[scale].seeds if scale in SIZES else PAPER_SEEDS
    return {f"{model.label}, seed {seed}": (model, seed) for seed in seeds for model in models_of(scale)}


PARTS: Parts = {scale: dict.fromkeys(parts_of(scale), ("data",)) for scale in PANELS}


def run(inputs: Inputs) -> Result:
    model, seed = parts_of(inputs.scale)[inputs.part]
    if inputs.scale in SIZES:
        return pretrain(model, seed, sizes_of(inputs.scale, model), inputs)
    overrides = slurm_overrides(model, seed)
    folder = inputs.runs / run_name(PRETRAINING_YAML, overrides)
    if not (folder / DONE).exists():
        command = f"fairseq-linformer submit {' '.join(overrides)} --runs {inputs.runs} task.data=FOLDER"
        raise ValueError(f"{folder} is not trained; `{command}` submits it")
    trained = Trained(folder)
    return pretrained_result(model, seed, {PAPER_BUDGET: trained}, trained, inputs)


def table_2_models(scale: str) -> list[Model]:
    """RoBERTa, and with the default start k = n / 4 without and with a window, and k = 1 with it."""
    return [model for model in PANELS[scale]["a"] if model.k in (None, model.n // 4, 1) and not model.start]


def sizes_of(scale: str, model: Model) -> Sizes:
    """How a model is pretrained: at scale cpu only the models of Table 2 to the largest budget."""
    sizes = SIZES[scale]
    if scale == "cpu" and model not in table_2_models(scale):
        return replace(sizes, budgets=sizes.budgets[:-1])
    return sizes


def config_name(model: Model) -> str:
    """Name of the model's file in ``configs/pretrain/run``."""
    return f"n{model.n}-roberta" if model.k is None else f"n{model.n}-k{model.k}-{model.sharing}"


def slurm_overrides(model: Model, seed: int) -> list[str]:
    """Overrides of ``configs/pretrain/base.yaml``: a run of ``configs/pretrain/run``, with a seed."""
    words = [f"+run={config_name(model)}"]
    if model.start == AUTHORS:
        words.append("+start=authors")
    elif model.start not in (None, model.default_start):
        words.append(f"++model.projection_init={model.start}")
    return words + [f"common.seed={seed}"] * (seed != 1)


# Verdicts


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows, panels = join(results), PANELS[results[0].scale if results else "cpu"]
    n = panels["a"][0].n
    found = [larger_k(rows, n), par(rows, n)]
    if "b" in panels:
        found.append(par(rows, panels["b"][0].n))
    if "c" in panels:
        found.append(sharing(rows, panels["c"]))
    if "d" in panels:
        found.append(any_length(rows, panels["d"]))
    windowed = [model for model in panels["a"] if model.local_window]
    return [*found, *with_window(rows, *windowed), learned(rows, n)] if windowed else found


def larger_k(rows: Rows, n: int) -> Verdict:
    """Panels a, b: each k against the next smaller one."""
    eighth, quarter, half = models = [Model(n, n // divisor) for divisor in (8, 4, 2)]
    limits = [Limit(quarter, eighth), Limit(half, quarter)]
    return perplexity_verdict(rows, "k", "A larger k lowers the validation perplexity.", models, limits)


def par(rows: Rows, n: int) -> Verdict:
    """Panels a, b: k = n / 4 against RoBERTa."""
    quarter = Model(n, n // 4)
    claim = f"k = n / 4 is nearly on par with RoBERTa at n = {n:,}."
    return perplexity_verdict(rows, f"par (k = {n // 4})", claim, [quarter], [Limit(quarter, Model(n), NEARLY)])


def sharing(rows: Rows, models: Sequence[Model]) -> Verdict:
    """Panel c: each sharing against none; headwise sharing from its default start is reported."""
    none, *shared = models
    claim = "Sharing E and F, even one for all layers, costs almost no perplexity."
    limits = [Limit(model, none, NEARLY) for model in shared]
    return perplexity_verdict(rows, "sharing", claim, models, limits, reported=[(Model(none.n, none.k), none)])


def any_length(rows: Rows, models: Sequence[Model]) -> Verdict:
    """Panel d: the shortest n against the others; RoBERTas of these n are the control, in remarks."""
    robertas, linformers = models[::2], models[1::2]
    claim = f"At k = {linformers[0].k} the final perplexity is about the same for every n."
    limits = [Limit(model, linformers[0], SAME, 1 / SAME) for model in linformers[1:]]
    return perplexity_verdict(
        rows, "n", claim, linformers, limits, reported=[(model, robertas[0]) for model in robertas[1:]]
    )


def with_window(rows: Rows, quarter: Model, control: Model) -> list[Verdict]:
    """k = n / 4 with a local window against RoBERTa, and against k = 1 with this window."""
    w, models = quarter.local_window, [quarter, control]
    near, lower = Limit(quarter, Model(quarter.n), NEARLY), Limit(quarter, control)
    par = f"k = n / 4 with W = {w} is nearly on par with RoBERTa, thanks to E and F."
    more = f"Next to W = {w}, E and F of k = n / 4 lower the perplexity of k = 1."
    return [
        perplexity_verdict(rows, "par with W", par, models, [near, lower]),
        perplexity_verdict(rows, "E and F", more, models, [lower]),
    ]


def learned(rows: Rows, n: int) -> Verdict:
    """Panel a: k = n / 4 against the same with E and F that are not trained."""
    quarter, fixed = Model(n, n // 4), Model(n, n // 4, start=FIXED)
    claim = "Training E and F of k = n / 4 lowers the perplexity, next to averages over windows."
    return perplexity_verdict(rows, "learned", claim, [quarter, fixed], [Limit(quarter, fixed)])


def tables(results: Sequence[Result]) -> list[Table]:
    rows, models = join(results), models_of(results[0].scale)
    title = "Validation perplexity, median [extremes], by budget"
    return [ratio_table(rows, models), perplexity_table(rows, title, models)]


def chart(results: Sequence[Result]) -> list[Panel]:
    rows, scale = join(results), results[0].scale
    titles = {"a": "by k", "b": "by k, a larger n", "c": "by sharing", "d": "by n"}
    measured = {
        panel: [model for model in models if bits_by_seed(rows, model)] for panel, models in PANELS[scale].items()
    }
    drawn: list[Panel] = []
    seen: set[Model] = set()
    for panel, models in measured.items():
        if not seen.issuperset(models):
            drawn.append(curves(rows, f"{titles[panel]}, {scale}", models))
        seen.update(models)
    return [*drawn, ratios_over_budgets(rows, f"ratio to RoBERTa, {scale}", measured["a"])]
