"""Figure 3: validation perplexity while pretraining, by k (a, b), by sharing (c) and by n (d).

Usage:

    fairseq-linformer reproduce figure-3a --scale cpu --data TEXT

E and F have the default initialization. The same models are also trained with the authors' initialization and learning
rate, and reported with each verdict.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...modules.rate import default_lr_scale
from ..claim import Claim
from ..comparisons import (
    CONVERGED,
    KNOWN,
    Comparison,
    compare_trained,
    comparison,
    decreasing_perplexity,
    perplexity_about,
    perplexity_at_most,
    perplexity_ratio,
)
from ..records import Record
from ..runs import AUTHORS, Model, Models, as_authors, compared_run, default_start
from ..scales import Scale
from ..statistics import Evaluate
from ..training import TrainingExperiment

NEARLY, SAME = 1.05, 1.1
"""Ratios of perplexities: at most the first is "nearly on par"; up to the second, either way, "about the same"."""
K_DIVISORS = (16, 8, 4, 2, 1)
"""k is n divided by each of these. The last one is a control: RoBERTa, until E and F learn."""
GPU_K_DIVISORS = (8, 4, 2)
WINDOW = ", W=16"
"""Suffix of the label of a model with a local window, beyond the paper."""
SHARINGS = ("none", "headwise", "key-value", "layerwise")
LENGTHS = (512, 1024, 2048, 4096)
"""The paper's n."""
OWN_START = ", default start"
"""Suffix of the label of a model with the default initialization of its sharing; compared models have a common one."""
EARLIER_PLANS = (
    "E and F started as window averages, the first position had no window of its own, window sizes were "
    "not counted, and the authors' initialization was not measured",
)


def with_authors(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models, and copies of those with k < n that have the authors' initialization and learning rate."""
    return {**models, **{label + AUTHORS: as_authors(m) for label, m in models.items() if m.k and m.k < m.n}}


def authors_rule(experiment: str, compare: Callable[[Record, str], Comparison]) -> Evaluate:
    """The verdict on models with our initialization; that on models with the authors' is a remark.

    Args:
        compare: compares the models of a record whose labels end with the second argument, empty or ``AUTHORS``.
    """

    def compare_ours(record: Record) -> Comparison:
        ours, theirs = compare(record, ""), compare(record, AUTHORS)
        if not any(record.find("perplexity", model=model) for model in theirs.models if model.endswith(AUTHORS)):
            return ours
        verdict = compare_trained(record, theirs)
        remark = f"with the authors' initialization and learning rate: {verdict.outcome}; {verdict.deciding[0]}"
        return replace(ours, remarks=[*ours.remarks, remark])

    return comparison(experiment, compare_ours, EARLIER_PLANS)


# Panels (a) and (b): k


def models_by_k(scale: Scale, n: int) -> Models:
    """On a GPU only as many as it trains side by side: the paper's k, and k = n / 4 with a local window."""
    on_cpu = scale.device == "cpu"
    models = {f"k={n // d}": Model(n, n // d) for d in (K_DIVISORS if on_cpu else GPU_K_DIVISORS)}
    models = with_authors(models) if on_cpu else {**models, f"k={n // 4}{WINDOW}": Model(n, n // 4, local_window=16)}
    return {label: compared_run(model) for label, model in {"roberta": Model(n), **models}.items()}


def labels_by_k(record: Record, start: str = "") -> list[str]:
    """Labels of a record's Linformers that end with ``start``, in order of k."""
    linformers = [m for m in record.select("perplexity", seed=None) if m.k is not None and m.model == f"k={m.k}{start}"]
    return [m.model for m in sorted(linformers, key=lambda m: m.k)]


def larger_k_is_lower(record: Record, start: str = "") -> Comparison:
    models = labels_by_k(record, start)
    return Comparison(models, decreasing_perplexity(record, models))


def quarter_is_near(record: Record, start: str = "") -> Comparison:
    model = f"k={record.configuration['n'] // 4}{start}"
    windowed = perplexity_ratio(record, model + WINDOW, "roberta")
    remarks = [f"{windowed}; not part of the verdict"] if windowed else []
    return Comparison([model], [perplexity_at_most(record, model, "roberta", NEARLY)], remarks=remarks)


def panel_by_k(letter: str, n: int, k: int, models: Callable[[Scale], Models], ks: Sequence[int]) -> TrainingExperiment:
    name, where = f"figure-3{letter}", f"Figure 3 ({letter}), section 5.1; n = {n:,}"
    claims = (
        Claim(
            name,
            where,
            "A larger k lowers the validation perplexity.",
            f"Holds if each k, up to k = n, has at most the perplexity of the next smaller k; does not hold if one has "
            f"more. {CONVERGED} {KNOWN}",
            authors_rule(name, larger_k_is_lower),
        ),
        Claim(
            f"{name}-par",
            f"{where}, k = {k}",
            "k = n / 4 is nearly on par with the Transformer.",
            f"Holds if k = n / 4 has at most {NEARLY:g} times the perplexity of RoBERTa after as many updates; does "
            f"not hold if it has more. {CONVERGED} {KNOWN}",
            authors_rule(name, quarter_is_near),
        ),
    )
    runs = {f"k={each}": (f"+run=n{n}-k{each}-headwise",) for each in ks}
    array = {"roberta": (f"+run=n{n}-roberta",), **runs, **authors_array(runs)}
    return TrainingExperiment(name, f"Figure 3 ({letter})", claims, models, array, EARLIER_PLANS)


def authors_array(runs: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Overrides of the paper-scale runs with the authors' initialization."""
    return {label + AUTHORS: (*overrides, "+start=authors") for label, overrides in runs.items()}


# Panel (c): sharing


def models_by_sharing(scale: Scale) -> Models:
    """All with the default initialization of layerwise sharing, whose single matrix does not support the others."""
    n, k, start = scale.compared_n, scale.compared_n // 4, default_start("layerwise")
    models = {"roberta": Model(n), **{sharing: Model(n, k, sharing, start=start) for sharing in SHARINGS}}
    defaults = {s + OWN_START: Model(n, k, s) for s in SHARINGS if default_start(s) != start}
    return {label: compared_run(model) for label, model in {**with_authors(models), **defaults}.items()}


def sharing_is_near(record: Record, start: str = "") -> Comparison:
    none, *shared = (sharing + start for sharing in SHARINGS)
    own = [perplexity_ratio(record, sharing + OWN_START, sharing) for sharing in SHARINGS]
    remarks = [f"{ratio}; not part of the verdict" for ratio in own if ratio]
    return Comparison(
        [none, *shared], [perplexity_at_most(record, model, none, NEARLY) for model in shared], remarks=remarks
    )


def array_by_sharing() -> dict[str, tuple[str, ...]]:
    start = default_start("layerwise")
    plain = {sharing: (f"+run=n512-k256-{sharing}",) for sharing in SHARINGS}
    same = {
        sharing: run if default_start(sharing) == start else (*run, f"++model.projection_init={start}")
        for sharing, run in plain.items()
    }
    defaults = {s + OWN_START: run for s, run in plain.items() if default_start(s) != start}
    return {"roberta": ("+run=n512-roberta",), **same, **authors_array(plain), **defaults}


# Panel (d): n


def models_by_length(scale: Scale) -> Models:
    """A Linformer and a RoBERTa of each n; the latter shows the effect of n without E and F.

    E and F of every n have the learning rate of the longest n, because the default falls with n.
    """
    lengths = scale.lengths
    rate = default_lr_scale(lengths[-1])
    models = {_roberta(n, lengths[0]): Model(n) for n in lengths}
    models |= {f"n={n}": Model(n, scale.fixed_k, rate=rate) for n in lengths}
    return {label: compared_run(model, lengths[-1]) for label, model in with_authors(models).items()}


def _roberta(n: int, shortest: int) -> str:
    return "roberta" + f" n={n}" * (n > shortest)


def lengths_are_alike(record: Record, start: str = "") -> Comparison:
    """The shortest n against the others; a RoBERTa of each n is the control."""
    measured = sorted(record.select("perplexity", seed=None), key=lambda m: m.n)
    models = [m.model for m in measured if m.k is not None and m.model == f"n={m.n}{start}"]
    n_of = {m.model: m.n for m in measured}
    robertas = {m.n: m.model for m in measured if m.k is None}
    controls = {model: robertas.get(n_of[model], f"roberta n={n_of[model]}") for model in models}
    ratios = [perplexity_ratio(record, model, control) for model, control in controls.items()]
    remarks = [f"{ratio}; not part of the verdict" for ratio in ratios if ratio]
    checks = [perplexity_about(record, model, models[0], SAME) for model in models[1:]]
    rates = {record.configuration.get("runs", {}).get(model, {}).get("model", {}).get("rate") for model in models}
    if None in rates or len(rates) > 1:
        remarks.insert(0, "not at one learning rate of E and F: it falls with n, which may explain a difference")
    return Comparison(models, checks, tuple(controls.values()) or ("roberta",), remarks)


def array_by_length() -> dict[str, tuple[str, ...]]:
    rate = default_lr_scale(LENGTHS[-1])
    runs = {f"n={n}": (f"+run=n{n}-k256-headwise",) for n in LENGTHS}
    same = {
        label: run if default_lr_scale(n) == rate else (*run, f"++model.projection_lr_scale={rate!r}")
        for n, (label, run) in zip(LENGTHS, runs.items())
    }
    robertas = {_roberta(n, LENGTHS[0]): (f"+run=n{n}-roberta",) for n in LENGTHS}
    return {**robertas, **same, **authors_array(runs)}


SHARING = Claim(
    "figure-3c",
    "Figure 3 (c), section 5.1; n = 512",
    "Sharing E and F, even one for all layers, costs almost no perplexity.",
    f"Holds if headwise, key-value and layerwise sharing each have at most {NEARLY:g} times the perplexity of no "
    f"sharing, with the same start of E and F; does not hold if one has more. {CONVERGED} {KNOWN}",
    authors_rule("figure-3c", sharing_is_near),
)
LENGTH = Claim(
    "figure-3d",
    "Figure 3 (d), section 5.1; k = 256, n = 512 to 4,096",
    "At a fixed k the final perplexity is about the same for every n.",
    f"Holds if each n has between 1 / {SAME:g} and {SAME:g} times the perplexity of the shortest n; does not hold if "
    "one has more or less. RoBERTa must have learned at each n; perplexities over RoBERTa's are reported and not part "
    f"of the verdict. {CONVERGED} {KNOWN}",
    authors_rule("figure-3d", lengths_are_alike),
)
EXPERIMENTS = (
    panel_by_k("a", 512, 128, lambda scale: models_by_k(scale, scale.compared_n), (64, 128, 256)),
    panel_by_k("b", 1024, 256, lambda scale: models_by_k(scale, 2 * scale.compared_n), (128, 256, 512)),
    TrainingExperiment("figure-3c", "Figure 3 (c)", [SHARING], models_by_sharing, array_by_sharing(), EARLIER_PLANS),
    TrainingExperiment("figure-3d", "Figure 3 (d)", [LENGTH], models_by_length, array_by_length(), EARLIER_PLANS),
)
"""At the paper's scale each model is a run of ``configs/pretrain/run``, with other overrides where needed."""
