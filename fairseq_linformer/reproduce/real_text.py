"""What scripts/real_text.sh measured: from fairseq's logs to ledger entries, a figure and a table.

    python -m fairseq_linformer.reproduce.real_text OUT --data wiki --results results
"""

import argparse
import logging
import re
import statistics
import sys
from pathlib import Path
from typing import Dict, List

from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from omegaconf import OmegaConf

from . import context_free, curves, ledger
from .demo import last_stats
from .ledger import Entry, Measurement

MODELS = ("roberta", "headwise", "layerwise")
NAMES = {"roberta": "RoBERTa", "headwise": "Linformer, headwise", "layerwise": "Linformer, layerwise"}
COMMAND = "scripts/real_text.sh WIKI OUT"


def training_seconds(log: Path) -> float:
    """All the time spent in training, over the runs that a log holds one after the other."""
    return sum(float(s) for s in re.findall(r"done training in ([\d.]+) seconds", log.read_text()))


def pretraining(out: Path, n: int, common: dict) -> Entry:
    """Final perplexities and curves of the three models at one length."""
    levels = context_free.measure(out / "bin", n, split="test")
    measured = {
        "context_free_perplexity": Measurement(levels.masked_perplexity, "perplexity", None, 1),
        "context_free_loss": Measurement(levels.masked_bits, "bits", None, 1),
        "unigram_perplexity": Measurement(levels.unigram_perplexity, "perplexity", None, 1),
        "valid_context_free_perplexity": Measurement(
            context_free.measure(out / "bin", n).masked_perplexity, "perplexity", None, 1
        ),
    }
    series: Dict[str, List[List[float]]] = {}
    seconds = 0.0
    for model in MODELS:
        run = out / f"{model}-{n}"
        value = last_stats(run / "test.log", "test_ppl")["test_ppl"]
        measured[f"{model}_perplexity"] = Measurement(value, "perplexity", None, 1)
        measured[f"{model}_loss"] = Measurement(last_stats(run / "test.log", "test_loss")["test_loss"], "bits", None, 1)
        series[model] = [list(point) for point in curves.read(run / "tensorboard", "valid", "loss")]
        seconds += training_seconds(run / "train.log")
    updates = int(max(series["roberta"])[0])
    how = "from scratch" if n == 64 else "grown from the model of n = 64 of the same kind"
    return Entry(
        identifier=f"real-text-pretraining-n{n}",
        claim=f"Masked LM on real text at n = {n}, k = {n // 2}, {updates} updates of 2,048 tokens, {how}: "
        "perplexity on held-out text, one seed",
        paper={"value": None, "where": "Figure 3 compares at 250k updates of base-size models; not comparable"},
        measured=measured,
        configuration={"resumed_at_update": updates // 2, **configuration(out / f"headwise-{n}")},
        seconds=round(seconds, 1),
        curves=series,
        **common,
    )  # fmt: skip


def commits(out: Path) -> str:
    """The commit of all runs, or if they differ each commit with its runs."""
    found = {path.parent.name: path.read_text().strip() for path in sorted(out.glob("*/commit"))}
    if not found:
        raise ValueError(f"{out} has no runs that name their commit")
    runs = {commit: [name for name in found if found[name] == commit] for commit in sorted(set(found.values()))}
    if len(runs) == 1:
        return next(iter(runs))
    return "; ".join(f"{commit} ({', '.join(names)})" for commit, names in runs.items())


def configuration(run: Path) -> dict:
    """What the checkpoint of a Linformer says of its model and its training; that of RoBERTa is
    the same without k and sharing."""
    cfg = load_checkpoint_to_cpu(str(run / "checkpoint_last.pt"))["cfg"]

    def pick(node: str, keys) -> dict:
        values = OmegaConf.to_container(cfg[node])
        return {key: values[key] for key in keys}

    model = [key for key in cfg.model if key.startswith(("encoder", "proj", "max_p", "dropout"))]
    return {
        "threads": 1,
        "model": pick("model", model),
        "task": pick("task", ("tokens_per_sample", "mask_prob", "sample_break_mode")),
        "batch_size": cfg.dataset.batch_size,
        "optimization": pick("optimization", ("lr", "clip_norm", "max_update")),
        "optimizer": pick("optimizer", ("_name", "adam_betas", "adam_eps", "weight_decay")),
        "lr_scheduler": pick("lr_scheduler", cfg.lr_scheduler),
        "seed": cfg.common.seed,
    }


def speed(out: Path, common: dict) -> Entry:
    """Tokens a second at n = 512, runs in turn: medians, and ratios within each round."""
    rates: Dict[str, List[float]] = {}
    for model in MODELS:
        logs = sorted(out.glob(f"speed-{model}-*.log"))
        rates[model] = [last_stats(log, "wps")["wps"] for log in logs]
    measured = {
        f"{model}_tokens_per_second": Measurement(statistics.median(r), "tokens/s", [min(r), max(r)], len(r))
        for model, r in rates.items()
    }
    for model in MODELS[1:]:
        ratios = [a / b for a, b in zip(rates[model], rates["roberta"])]
        measured[f"{model}_over_roberta"] = Measurement(
            round(statistics.median(ratios), 3), "ratio", [round(min(ratios), 3), round(max(ratios), 3)], len(ratios)
        )
    return Entry(
        identifier="real-text-training-speed-n512",
        claim="Tokens a second of fairseq-train at n = 512, k = 256, 2 layers of 128, one thread; runs of 60 updates "
        "in turn, the rate of the last 20; ratios within a round",
        paper={"value": None, "where": "the paper gives no training speed"},
        measured=measured,
        configuration={"as": "real-text-pretraining-n512", "threads": 1},
        seconds=round(sum(training_seconds(log) for log in out.glob("speed-*.log")), 1),
        **{**common, "commit": (out / "speed-commit").read_text().strip()},
    )


def draw(path: Path, entries: List[Entry]) -> None:
    """The validation curves of both lengths, side by side, in a PNG."""
    figure = curves.new_figure()
    styles = {"roberta": ("black", "-", "o"), "headwise": ("#0072B2", "--", "s"), "layerwise": ("#D55E00", ":", "^")}
    for axes, entry in zip(figure.subplots(1, 2, sharey=True), entries):
        level = entry.measured["valid_context_free_perplexity"].value
        axes.axhline(level, color="grey", linewidth=1)
        axes.annotate(f"without context: {level:.0f}", (0.98, level), xycoords=("axes fraction", "data"),
                      ha="right", va="bottom", fontsize=8, color="grey")  # fmt: skip
        for model, points in entry.curves.items():
            color, line, marker = styles[model]
            axes.plot([u for u, _ in points], [2**bits for _, bits in points], line, color=color, marker=marker,
                      markersize=4, markevery=2, label=NAMES[model])  # fmt: skip
        m = entry.configuration["model"]
        axes.set(title=f"n = {m['max_positions']}, k = {m['projected_dim']}", xlabel="updates of 2,048 tokens", yscale="log")
    figure.axes[0].set_ylabel("validation perplexity")
    ticks = [20, 30, 50, 100, 200, 400]
    figure.axes[0].set_yticks(ticks, [str(t) for t in ticks])
    figure.axes[0].minorticks_off()
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path)


def table(pretrained: List[Entry], speeds: Entry) -> str:
    """All of it in Markdown."""
    lines = ["# Real text: RoBERTa and Linformer of equal small size", ""]
    for entry in pretrained:
        lines += [f"{entry.claim}.", "", "| model | perplexity | bits | bits below a model without context |", "|---|---|---|---|"]
        level = entry.measured["context_free_loss"].value
        for model in MODELS:
            value, bits = (entry.measured[f"{model}_{what}"].value for what in ("perplexity", "loss"))
            lines.append(f"| {NAMES[model]} | {value:.2f} | {bits:.3f} | {level - bits:.2f} |")
        lines += [f"| without context | {2**level:.1f} | {level:.3f} | 0 |", ""]
    lines += [f"{speeds.claim}.", "", "| model | tokens/s, median (lowest to highest) | over RoBERTa |", "|---|---|---|"]
    for model in MODELS:
        m = speeds.measured[f"{model}_tokens_per_second"]
        ratio = speeds.measured.get(f"{model}_over_roberta")
        over = "1" if ratio is None else f"{ratio.value:.2f} ({ratio.spread[0]:.2f} to {ratio.spread[1]:.2f})"
        lines.append(f"| {NAMES[model]} | {m.value:,.0f} ({m.spread[0]:,.0f} to {m.spread[1]:,.0f}) | {over} |")
    lines += ["", "![curves](real_text.png)", "", ledger.footer(speeds),
              f"Commit {pretrained[0].commit}, speed at {speeds.commit}.", ""]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder that scripts/real_text.sh filled")
    parser.add_argument("--data", required=True, help="what the text is, in words")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    # Importing fairseq sets the root logger to DEBUG, and matplotlib tells about every font.
    logging.getLogger().setLevel(logging.WARNING)
    try:
        common = {"commit": commits(args.out), **ledger.circumstances(args.data, COMMAND)}
        pretrained = [pretraining(args.out, n, common) for n in (64, 512)]
        speeds = speed(args.out, common)
    except (OSError, ValueError) as error:
        sys.exit(f"real_text: {error}")
    for entry in (*pretrained, speeds):
        print(ledger.write(entry, args.results))
    draw(args.results / "real_text.png", pretrained)
    (args.results / "real_text.md").write_text(table(pretrained, speeds))


if __name__ == "__main__":
    main()
