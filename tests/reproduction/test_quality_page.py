"""The tables of docs/quality.md are those of the committed records."""

from pathlib import Path
from statistics import fmean

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.comparisons import perplexity_ratio
from fairseq_linformer.reproduction.experiments import distillation, encoder_perplexity, short_inputs
from fairseq_linformer.reproduction.experiments.local_window import K_DIVISORS, LOCAL_WINDOWS, label
from fairseq_linformer.reproduction.experiments.survival import last_shares
from fairseq_linformer.reproduction.recall_runs import FULL
from fairseq_linformer.reproduction.recall_runs import label as recall_label
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.report.tables import MISSING

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quality.md"


def ratios(record):
    """Perplexities relative to RoBERTa's, with their intervals: a row per k, a column per W."""
    n = record.find("perplexity", model="roberta").n
    lines = ["| k | W = 0 | W = 4 | W = 16 |", "|---|---|---|---|"]
    for k in (1, *(n // divisor for divisor in K_DIVISORS)):
        found = [perplexity_ratio(record, label(k, local_window), "roberta") for local_window in LOCAL_WINDOWS]
        cells = [f"{each.value:.3g} [{each.low:.3g}, {each.high:.3g}]" for each in found]
        name = "1" if k == 1 else f"{k} = n / {n // k}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def recalled(record):
    """Mean accuracies of the seeds in percent: a row per k, a column per W, and one for the authors' start."""

    def cell(model):
        found = [m.value for m in record.select("accuracy", model=model)]
        return f"{100 * fmean(found):.1f}" if found else ""

    (n,) = {m.n for m in record.select("accuracy")}
    lines = ["| k | W = 0 | W = 4 | W = 16 | W = 0, `normal` |", "|---|---|---|---|---|"]
    for k in (1, *(n // part for part in record.configuration["parts"])):
        cells = [cell(recall_label(k, local_window, None)) for local_window in LOCAL_WINDOWS] + [
            cell(recall_label(k, 0, "normal"))
        ]
        lines.append(f"| {k} | {' | '.join(cells)} |")
    return lines


def recalled_at_every_length(record):
    """Mean accuracies of the seeds in percent: a row per n, the columns of each W."""
    lines = [f"| n | distance | full attention | {' | '.join(['k = 1', 'k = n / 8', 'k = n / 2'] * 2)} |"]
    lines.append(f"|{'---|' * 9}")
    for task in record.configuration["tasks"]:
        n = task["n"]
        models = [recall_label(k, local_window, None) for local_window in (0, 16) for k in (1, n // 8, n // 2)]
        found = [record.select("accuracy", model=model, n=n) for model in (FULL, *models)]
        cells = [f"{100 * fmean(m.value for m in seeds):.1f}" for seeds in found]
        lines.append(f"| {n:,} | {task['distance']} | {' | '.join(cells)} |")
    return lines


def read(name):
    return ledger.read(ROOT / "results" / f"{name}.json")


def costs():
    """Time and memory with W = 16, for both k."""
    lines = ["| | k = 128 | k = 256 |", "|---|---|---|"]
    steps, inference = (
        [read(f"benchmark-{kind}-k128-cpu"), read(f"benchmark-{kind}-cpu")]
        for kind in ("localstep-cpu-fp32-l12", "localpertoken-cpu-fp32-l2")
    )
    for name, records, metric, n in (
        ("training step / W = 0", steps, "relative_time", 512),
        ("activation memory of a step / W = 0", steps, "relative_bytes", 512),
        ("inference / W = 0, n = 16,384", inference, "relative_time", 16384),
        ("inference, time per token, n = 16,384 / n = 512", inference, "time_per_token_ratio", 16384),
    ):
        found = [record.find(metric, model="W=16", n=n) for record in records]
        lines.append(f"| {name} | {' | '.join(cell(m) for m in found)} |")
    return lines


def surviving(record):
    """Share of the last layer: a row per n and k, a column per W."""
    lines = ["| n | k | W = 0 | W = 4 | W = 16 |", "|---|---|---|---|---|"]
    for n in (128, 512):
        for k in (1, *(n // divisor for divisor in K_DIVISORS)):
            shares = last_shares(record, n, k)
            lines.append(
                f"| {n} | {k} | {' | '.join(f'{shares[local_window]:.3f}' for local_window in LOCAL_WINDOWS)} |"
            )
    return lines


def by_length(record):
    """Share of the last layer: a row per length, a column per W and start."""
    sizes = short_inputs.SIZES["encoder"]
    models = [(start, window) for window in sizes.local_windows for start in short_inputs.STARTS]
    head = " | ".join(f"{start}, W = {window}" for start, window in models)
    lines = [f"| tokens | {head} |", "|---" * (1 + len(models)) + "|"]
    for n in sizes.lengths:
        shares = (short_inputs.share_of(record, start, window, n) for start, window in models)
        lines.append(f"| {n} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    return lines


def masked():
    """Perplexity of the encoder and of Linformers converted from it: a row per model."""
    lines = ["| | before | after 150 updates | relative to the Transformer's |", "|---|---|---|---|"]
    sizes = encoder_perplexity.SIZES["encoder"]
    whole = encoder_perplexity.join_records(
        [read(encoder_perplexity.identifier("encoder", model)) for model in sizes.models], "encoder"
    )
    for model in sizes.models:
        name = encoder_perplexity.label(model)
        before, after = whole.find("bits_before", model=name), whole.find("perplexity", model=name, seed=None)
        ratio = perplexity_ratio(whole, name, "roberta")
        spread = "" if model.k is None else f"{ratio.value:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
        row = "Transformer" if model.k is None else f"k = {model.k}, W = {model.local_window}"
        lines.append(f"| {row} | {2**before.value:.0f} | {cell(after)} | {spread} |")
    return lines


def distilled():
    """Share of the last layer by tokens of distillation: a row per measured model."""
    experiment = find(distillation.NAME)
    names = [experiment.identifier("encoder", model) for model in experiment.members("encoder")]
    (table,) = experiment.tables([read(name) for name in names if (ROOT / "results" / f"{name}.json").is_file()])
    rows = [row for row in table.rows if MISSING not in row]
    return [f"| {' | '.join(row)} |" for row in (table.head, ["---"] * len(table.head), *rows)]


FINETUNED = {
    "Transformer": "transformer",
    "k = 128, W = 16": "k128-headwise-w16-graded",
    "k = 1, W = 16": "k1-headwise-w16-graded",
    "k = 256, W = 0, headwise": "k256-headwise-graded",
    "k = 256, W = 0, key-value": "k256-key-value-graded",
    "k = 256, W = 0, layerwise": "k256-layerwise-graded",
    "k = 128, W = 0, headwise": "k128-headwise-graded",
    "k = 128, W = 0, key-value": "k128-key-value-graded",
    "k = 128, W = 0, layerwise": "k128-layerwise-graded",
    "earlier: k = 128, W = 16": "k128-headwise-w16",
    "earlier: k = 1, W = 16": "k1-headwise-w16",
}


def finetuned():
    """Accuracies in percent: medians of three seeds with their range. A row per model, a column per task, then the mean
    of the medians and its share of the Transformer's."""
    tasks = ("SST-2", "IMDB", "QNLI", "QQP")
    lines, encoder = [f"| | {' | '.join(tasks)} | mean | kept |", "|---" * (len(tasks) + 3) + "|"], 0.0
    for row, model in FINETUNED.items():
        records = [read(f"encoder-tasks-{task.lower()}-{model}-encoder") for task in tasks]
        found = [record.find("accuracy", split="valid") for record in records]
        mean = fmean(m.value for m in found)
        encoder = encoder or mean
        lines.append(f"| {row} | {' | '.join(cell(m) for m in found)} | {mean:.1f} | {100 * mean / encoder:.1f} % |")
    return lines


def resized():
    """Accuracies on IMDB in percent at n = 512 and at n = 1,024: medians of three seeds with their range."""
    lines = ["| | n = 512 | n = 1,024 |", "|---|---|---|"]
    for row, model in list(FINETUNED.items())[:2]:
        records = [read(f"encoder-tasks-imdb-{model}{n}-encoder") for n in ("", "-n1024")]
        lines.append(f"| {row} | {' | '.join(cell(record.find('accuracy', split='valid')) for record in records)} |")
    return lines


def cell(m):
    return f"{m.value:.3g}" + (f" [{m.interval[0]:.3g}, {m.interval[1]:.3g}]" if m.interval else "")


TABLES = {
    **{f"{name}-cpu": ratios for name in ("conversion", "conversion-long", "local-window", "local-window-long")},
    "recall-cpu": recalled,
    "recall-long-cpu": recalled_at_every_length,
    "survival-encoder": surviving,
    "short-inputs-encoder": by_length,
}


def tables():
    """The tables of the page, by name."""
    found = {name: table(read(name)) for name, table in TABLES.items()}
    return {
        **found,
        "local-window-cost": costs(),
        "encoder-perplexity": masked(),
        "encoder-tasks": finetuned(),
        "encoder-tasks-resized": resized(),
        "distillation": distilled(),
    }


def test_tables_are_those_of_the_records():
    page = PAGE.read_text()
    for name, lines in tables().items():
        found = page.split(f"<!-- {name} begin -->\n")[1].split(f"<!-- {name} end -->")[0]
        assert found.splitlines() == lines, name
    assert page.count(" begin -->") == len(tables())
