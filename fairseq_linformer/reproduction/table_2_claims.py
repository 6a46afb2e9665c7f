"""The claims of Table 2, and the rules that decide them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from .accuracies import ABOVE_CHANCE, Accuracies, Model
from .claim import Claim
from .records import Record
from .runs import WINDOWS, default_start, fill_defaults
from .statistics import (
    FAILS,
    HOLDS,
    MIN_SEEDS,
    UNDECIDED,
    Check,
    Estimate,
    Evaluate,
    Measured,
    Verdict,
    combine,
    compare,
    difference_of_extremes,
    not_measured,
)

POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""
SHARINGS = ("headwise", "key-value", "layerwise")


def table_2_rule(checks_of: Callable[[Accuracies], list[Check]], needs_learning: bool = False) -> Evaluate:
    """
    Args:
        needs_learning: compare pretrained models. Nothing is decided if pretraining does not raise RoBERTa's accuracy:
            then labels alone are compared. Tasks near chance are skipped, and reported.
    """

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = Accuracies(records, scale)
        if not found.records:
            return not_measured(f"of table-2 at scale {scale}")
        checks = checks_of(found)
        missing = _missing_learning(found) if needs_learning else []
        skipped = [f"{task} is skipped because it is near chance: {best}" for task, best in found.near_chance.items()]
        used = list(found.used.values()) or found.records
        verdict = combine([*missing, *checks], used, [*_earlier_windows(used), *(skipped if needs_learning else [])])
        return replace(verdict, outcome=UNDECIDED) if missing else verdict

    return evaluate


def _earlier_windows(records: Iterable[Record]) -> list[str]:
    """A remark if Linformers were pretrained with other windows than today's."""
    for record in records:
        for run in record.configuration.get("runs", {}).values():
            windows = fill_defaults(run).get("model", {}).get("windows")
            if windows not in (None, WINDOWS):
                return [f"measured with an earlier plan: {windows} windows; now: {WINDOWS}, not measured"]
    return []


def _check_difference(a: Measured, b: Measured, text: str, check: Callable[[Estimate], Check]) -> list[Check]:
    """The check of a - b; what is missing if one is not measured."""
    return compare(a, b, lambda x, y: check(difference_of_extremes(x, y, text)))


def _missing_learning(found: Accuracies) -> list[Check]:
    """Why the RoBERTa of the shortest n shows no effect of pretraining; nothing where it does, or was not finetuned
    from scratch."""
    roberta = Model(found.n)
    if not found.has_scratch(roberta):
        return []
    text = f"mean: {roberta.name}, pretrained minus from scratch"
    pair = found.average(roberta), found.average(roberta, scratch=True)
    checks = _check_difference(*pair, text, lambda gained: gained.more_than(0.0))
    return [Check(UNDECIDED, check.text) for check in checks if check.outcome != HOLDS]


def comparable(found: Accuracies) -> list[Check]:
    """On each task the Linformer of k = n / 4, with each sharing that was finetuned, is at most ``POINT`` below
    RoBERTa."""
    quarter = [Model(found.n, found.n // 4, sharing) for sharing in SHARINGS]
    checks: list[Check] = []
    for task in found.learned_tasks:
        for model in [m for m in quarter if m in found.models] or quarter[:1]:
            pair = found.accuracy(task, Model(found.n)), found.accuracy(task, model)
            text = f"{task}: RoBERTa minus {model.name}"
            checks += _check_difference(*pair, text, lambda lost: lost.at_most(POINT))
    return list(dict.fromkeys(checks))


def half_beats_roberta(found: Accuracies) -> list[Check]:
    """A Linformer of k = n / 2 has the higher average, with one of the sharings that were finetuned."""
    roberta, half = Model(found.n), [Model(found.n, found.half, sharing) for sharing in SHARINGS]
    averages, missing = _averages(found, [roberta, *([model for model in half if model in found.models] or half[:1])])
    if roberta not in averages:
        return missing
    checks = [
        difference_of_extremes(average, averages[roberta], f"mean: {model.name} minus RoBERTa").more_than(0.0)
        for model, average in averages.items()
        if model != roberta
    ]
    if holding := [check for check in checks if check.outcome == HOLDS]:
        return holding
    if not missing and all(check.outcome == FAILS for check in checks):
        return checks
    return [*(Check(UNDECIDED, check.text) for check in checks), *missing]


def _averages(found: Accuracies, models: Sequence[Model]) -> tuple[dict[Model, Estimate], list[Check]]:
    """Of the models that have all tasks, and what the others lack."""
    averages = {model: found.average(model) for model in models}
    missing = [check for average in averages.values() if isinstance(average, list) for check in average]
    return {model: average for model, average in averages.items() if isinstance(average, Estimate)}, missing


def layerwise_is_best(found: Accuracies) -> list[Check]:
    """At k = n / 2."""
    *others, layerwise = models = [Model(found.n, found.half, sharing) for sharing in SHARINGS]
    averages, checks = _averages(found, models)
    for model in others:
        if model in averages and layerwise in averages:
            text = f"mean: {layerwise.name} minus {model.name}"
            checks.append(difference_of_extremes(averages[layerwise], averages[model], text).more_than(0.0))
    return checks


def layerwise_rule(records: Sequence[Record], scale: str) -> Verdict:
    """With a remark if E and F are initialized differently, which may explain a difference."""
    verdict = table_2_rule(layerwise_is_best, needs_learning=True)(records, scale)
    used = [record for record in records if record.identifier in verdict.records]
    starts = {model.sharing: start_of(record) for record in used if (model := Model.from_record(record)).k}
    if len(set(starts.values())) < 2:
        return verdict
    text = ", ".join(f"{sharing} {start}" for sharing, start in starts.items())
    remark = f"the initialization of E and F differs ({text}), which may explain a difference between sharings"
    return replace(verdict, remarks=[remark, *verdict.remarks])


def start_of(record: Record) -> str | None:
    """How E and F of a finetuned Linformer started when it was pretrained; None if the record does not say."""
    for run in record.configuration.get("runs", {}).values():
        return fill_defaults(run).get("model", {}).get("start")
    options = (record.configuration["model"].get("pretraining") or {}).get("cfg", {}).get("model", {})
    return options.get("projection_init") or default_start(options["sharing"]) if "sharing" in options else None


def longer_is_similar(found: Accuracies) -> list[Check]:
    """At twice n and the same k the average is within ``POINT``, with each sharing that was finetuned at both."""
    pairs = [(Model(found.n, found.half, sharing), Model(2 * found.n, found.half, sharing)) for sharing in SHARINGS]
    complete = [pair for pair in pairs if all(model in found.models for model in pair)] or pairs[:1]
    averages, checks = _averages(found, [model for pair in complete for model in pair])
    for short, long in complete:
        if short in averages and long in averages:
            text = f"mean: {long.name} minus {short.name}"
            checks.append(difference_of_extremes(averages[long], averages[short], text).within(-POINT, POINT))
    return checks


def pretraining_helps(found: Accuracies) -> list[Check]:
    """On each task, each model that was finetuned from scratch too is better pretrained: one RoBERTa and one Linformer
    at least."""
    models = []
    for kind in (
        [m for m in found.models if m.k is None] or [Model(0)],
        [m for m in found.models if m.k is not None] or [Model(0, 0)],
    ):
        models += [model for model in kind if found.has_scratch(model)] or kind[:1]
    checks = []
    for task in found.tasks:
        for model in models:
            pair = found.accuracy(task, model), found.accuracy(task, model, scratch=True)
            text = f"{task}: {model.name}, pretrained minus from scratch"
            checks += _check_difference(*pair, text, lambda gained: gained.more_than(0.0))
    return checks


_KNOWN = " (Written when an earlier measurement was known.)"
_COMPARED = (
    f" Tasks are those with a model {ABOVE_CHANCE:g} points above the most frequent class, by the lower end of its "
    "95 % interval (Wilson); others are reported. Every run is compared with every other; seeds are of finetuning "
    f"alone. Not enough evidence with fewer than {MIN_SEEDS} seeds, where a task or a model is missing and the rest "
    "does not fail, or if RoBERTa pretrained does not have a higher mean than from scratch: then labels alone are "
    "compared."
)

# Earlier rules

_SEEDS_FIRST = (
    "any two of their seeds, which are of finetuning alone: each model was pretrained once. Not enough evidence with "
    f"fewer than {MIN_SEEDS} seeds, or where a task or a model is missing"
)
_SEEDS = f"{_SEEDS_FIRST} and what is there does not fail"
_LEARNED = (
    " Not enough evidence if RoBERTa, where it was finetuned from scratch too, has not the higher mean accuracy over "
    "all tasks pretrained: then the comparison is of what labels teach." + _KNOWN
)
_HALF = (
    "Holds if the mean accuracy over all tasks of a Linformer of k = n / 2 with one of the three sharings is above "
    "RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the others); does not hold if with "
)
_BEST = (
    "Holds if at k = n / 2 its mean accuracy over all tasks is above that of headwise and of key-value sharing (the "
    "paper's is at k = 256, and not at 128); does not hold if "
)
_SIMILAR = "Holds if its mean accuracy over all tasks is within 1 point of that at n, at k = n / 2"


CLAIMS = (
    Claim(
        "table-2",
        "Table 2, section 5.2; n = 512, k = 128",
        "Finetuned, the Linformer is comparable to RoBERTa.",
        "Holds if on each task the Linformer of k = n / 4, with each sharing that was finetuned, is at most "
        f"{POINT:g} point of accuracy below RoBERTa; does not hold if it is further below on one." + _COMPARED,
        table_2_rule(comparable, needs_learning=True),
    ),
    Claim(
        "table-2-k",
        "Table 2, section 5.2; n = 512, k = 256",
        "At k = n / 2 the Linformer slightly outperforms RoBERTa.",
        "Holds if the mean accuracy over tasks of a Linformer of k = n / 2, with one of the three sharings, is above "
        "RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the others); does not hold if "
        "it is with none that was finetuned." + _COMPARED,
        table_2_rule(half_beats_roberta, needs_learning=True),
    ),
    Claim(
        "table-2-sharing",
        "Table 2, section 5.2; n = 512, k = 256",
        "Of the three ways to share E and F, layerwise sharing has the best accuracy.",
        "Holds if at k = n / 2 its mean accuracy over tasks is above that of headwise and of key-value sharing (the "
        "paper's is at k = 256, and not at 128); does not hold if one of the two is at least as accurate in every pair "
        "of runs." + _COMPARED,
        layerwise_rule,
    ),
    Claim(
        "table-2-n",
        "Table 2, section 5.2; n = 1,024 and 512, k = 256",
        "Pretrained at twice the n, a Linformer of the same k has similar results.",
        f"Holds if its mean accuracy over tasks is within {POINT:g} point of that at n, at k = n / 2, with each "
        "sharing that was finetuned at both; does not hold if it is further away." + _COMPARED,
        table_2_rule(longer_is_similar, needs_learning=True),
    ),
    Claim(
        "pretraining",
        "this project: finetune",
        "Pretraining raises the accuracy of every model on every task.",
        "Holds if RoBERTa and each Linformer, of those that were finetuned from scratch too, are better on each task "
        "pretrained than from scratch; does "
        f"not hold if one is not on one task; by {_SEEDS}." + _KNOWN,
        table_2_rule(pretraining_helps),
    ),
)
