"""Figure 3: validation perplexity while pretraining, by k (a, b), by sharing (c) and by n (d).

    fairseq-linformer reproduce figure-3a --scale cpu --text TEXT
"""

from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, compared
from ..scales import Scale
from ..statistics import (
    MIN_BITS_LEARNED,
    MIN_SEEDS,
    decreasing_perplexity,
    perplexity_about,
    perplexity_at_most,
    perplexity_ratio,
)
from ..training import TrainingExperiment, comparison

NEARLY, SAME = 1.05, 1.1
"""Times a perplexity: "nearly on par", "almost matches"; and "about the same", either way."""
K_DIVISORS = (16, 8, 4, 2, 1)
"""k is n over each of these; the last is a control, which is RoBERTa until it learns."""

GROUNDS = (f" Not enough evidence with fewer than {MIN_SEEDS} seeds, or a RoBERTa less than {MIN_BITS_LEARNED:g} bits below a model "
           "without context.")  # fmt: skip
RATIO = "the 95 % interval over seeds of the ratio of perplexities"
BEFORE = " (Written when earlier entries on the same kind of text, at other sizes, were known.)"
ORDER = (f"Holds if {RATIO} of each k over the next smaller one is at most 1, k = n included; does not hold if one is above 1."
         + GROUNDS + BEFORE)  # fmt: skip
PAR = (f"Holds if {RATIO}, k = n / 4 over RoBERTa trained on equally long, is at most {NEARLY:g}; does not hold if it is above."
       + GROUNDS + BEFORE)  # fmt: skip


# Panels (a) and (b): k


def by_k(n: int) -> Models:
    return {"roberta": compared(Model(n)), **{f"k={n // d}": compared(Model(n, n // d)) for d in K_DIVISORS}}


def models_by_k(record: Record) -> list[str]:
    """The Linformers of a record, k rising."""
    linformers = [m for m in record.select("perplexity", seed=None) if m.k is not None]
    return [m.model for m in sorted(linformers, key=lambda m: m.k)]


def larger_k_is_lower(record: Record) -> tuple:
    models = models_by_k(record)
    return models, decreasing_perplexity(record, models)


def quarter_is_near(record: Record) -> tuple:
    k = record.configuration["n"] // 4
    m = record.find("perplexity", k=k, seed=None)
    model = m.model if m else f"k={k}"
    return [model], [perplexity_at_most(record, model, "roberta", NEARLY)]


def panel_by_k(letter: str, n: str, k: int, models, array: dict[str, str]) -> TrainingExperiment:
    name, where = f"figure-3{letter}", f"Figure 3 ({letter}), section 5.1; n = {n}"
    claims = (
        Claim(name, where, "A larger k has a lower validation perplexity.", ORDER, comparison(name, larger_k_is_lower)),
        Claim(f"{name}-par", f"{where}, k = {k}", "k = n / 4 is nearly on par with the Transformer.", PAR,
              comparison(name, quarter_is_near)),
    )  # fmt: skip
    return TrainingExperiment(name, f"Figure 3 ({letter})", claims, models, array)


# Panel (c): sharing


def by_sharing(scale: Scale) -> Models:
    n = scale.compared_n
    sharings = ("none", "headwise", "key-value", "layerwise")
    return {"roberta": compared(Model(n)), **{sharing: compared(Model(n, n // 4, sharing)) for sharing in sharings}}


def sharing_is_near(record: Record) -> tuple:
    models = ["headwise", "key-value", "layerwise"]
    return ["none", *models], [perplexity_at_most(record, model, "none", NEARLY) for model in models]


# Panel (d): n


def by_length(scale: Scale) -> Models:
    """With each Linformer a RoBERTa of the same n, which shows what that n costs without E and F."""
    lengths, models = scale.lengths, {}
    for n in lengths:
        models["roberta" + f" n={n}" * (n > lengths[0])] = compared(Model(n), lengths[-1])
        models[f"n={n}"] = compared(Model(n, scale.fixed_k), lengths[-1])
    return models


def lengths_are_alike(record: Record) -> tuple:
    """The shortest n against the others; a RoBERTa of each n is the control."""
    measured = sorted(record.select("perplexity", seed=None), key=lambda m: m.n)
    models = [m.model for m in measured if m.k is not None]
    n_of = {m.model: m.n for m in measured}
    robertas = {m.n: m.model for m in measured if m.k is None}
    controls = {model: robertas.get(n_of[model], f"roberta {model}") for model in models}
    ratios = [perplexity_ratio(record, model, control) for model, control in controls.items()]
    remarks = [f"{ratio}; no part of the verdict" for ratio in ratios if ratio]
    checks = [perplexity_about(record, model, models[0], SAME) for model in models[1:]]
    return models, checks, tuple(controls.values()) or ("roberta",), remarks


SHARING = Claim(
    "figure-3c", "Figure 3 (c), section 5.1; n = 512", "Sharing E and F, even one for all layers, costs almost no perplexity.",
    f"Holds if {RATIO} of headwise, key-value and layerwise over none is at most {NEARLY:g}; does not hold if one is above." + GROUNDS
    + BEFORE, comparison("figure-3c", sharing_is_near),
)  # fmt: skip
LENGTH = Claim(
    "figure-3d", "Figure 3 (d), section 5.1; k = 256, n = 512 to 4,096",
    "At a fixed k the final perplexity is about the same for every n.",
    f"Holds if {RATIO} of each n over the shortest is between 1 / {SAME:g} and {SAME:g}; does not hold if one is above or below. The "
    "grounds are asked of a RoBERTa of each n; a perplexity over that of its RoBERTa is told, and is no part of the verdict."
    + GROUNDS + BEFORE, comparison("figure-3d", lengths_are_alike),
)  # fmt: skip
EXPERIMENTS = (
    panel_by_k("a", "512", 128, lambda scale: by_k(scale.compared_n),
               {"roberta": "n512-roberta", **{f"k={k}": f"n512-k{k}-headwise" for k in (64, 128, 256)}}),
    panel_by_k("b", "1,024", 256, lambda scale: by_k(2 * scale.compared_n),
               {"roberta": "n1024-roberta", **{f"k={k}": f"n1024-k{k}-headwise" for k in (128, 256, 512)}}),
    TrainingExperiment("figure-3c", "Figure 3 (c)", [SHARING], by_sharing,
                       {sharing: f"n512-k256-{sharing}" for sharing in ("headwise", "key-value", "layerwise")}),
    TrainingExperiment("figure-3d", "Figure 3 (d)", [LENGTH], by_length,
                       {f"n={n}": f"n{n}-k256-headwise" for n in (512, 1024, 2048, 4096)}),
)  # fmt: skip
"""At the paper's scale (last argument) each model is a run of ``configs/pretrain/run``."""
