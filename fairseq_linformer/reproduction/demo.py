"""Results of ``scripts/demo.sh``: a table, a figure, and whether the model learned.

    python -m fairseq_linformer.reproduction.demo data/demo

Prints the table and writes curves.png and summary.json into the folder. Every number comes from the files that the
demo's commands wrote there: fairseq's logs and checkpoints, the binarized text, the labels. Exits with status 1 if the
model did not learn.
"""

import argparse
import json
import logging
import re
import sys
from collections import Counter
from pathlib import Path

from ..fairseq_log import read_curve, read_split
from ..files import open_atomic
from . import context_free

TEXT, LABELS = "bin/text", "corpus/task/valid.label"
PRETRAINED, FINETUNED = "pretrain/checkpoint_last.pt", "finetune/checkpoint_best.pt"

Series = list[tuple[int, float]]
"""(update, value), updates rising."""


def series(log: Path, split: str, name: str) -> Series:
    """``fairseq_log.read_curve`` of a file.

    Raises:
        ValueError: the log has no such curve.
    """
    if not (found := read_curve(Path(log).read_text(encoding="utf-8").splitlines(), split, name)):
        raise ValueError(f"{log} has no {name!r} of split {split!r}")
    return found


def last_value(log: Path, name: str) -> float:
    """The last value of that name in fairseq's log.

    Raises:
        ValueError: there is none.
    """
    lines = Path(log).read_text(encoding="utf-8").splitlines()
    found = [stats[name] for split in ("valid", "test") for stats in read_split(lines, split) if name in stats]
    if not found:
        raise ValueError(f"{log} has no {name!r}")
    return found[-1]


def count_parameters(log: Path) -> int:
    """Parameters of the model, as ``fairseq-train`` logs them; a shared one counts once.

    Raises:
        ValueError: the log lacks the number.
    """
    found = re.search(r"num\. shared model params: ([\d,]+)", Path(log).read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{log} has no line 'num. shared model params'")
    return int(found[1].replace(",", ""))


def summarize(demo: Path) -> dict:
    """The numbers of a finished demo: perplexities and bits per predicted token, accuracies in percent, seconds, bytes.

    Raises:
        FileNotFoundError, ValueError: a step's output is missing or damaged.
    """
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu
    from fairseq.modules.layer_norm import has_fused_layernorm

    cfg = load_checkpoint_to_cpu(str(demo / PRETRAINED))["cfg"]
    model, task = cfg["model"], cfg["task"]
    level = context_free.measure(demo / TEXT, task.tokens_per_sample, task.random_token_prob, task.leave_unmasked_prob)
    labels = (demo / LABELS).read_text(encoding="utf-8").split()
    if not labels:
        raise ValueError(f"{demo / LABELS} must have at least one label, got none")
    steps = sorted((demo / "done").iterdir(), key=lambda mark: mark.stat().st_mtime)
    logs = {"before": demo / "logs/validate-before.log", "after": demo / "logs/validate-after.log"}
    return {
        "max_positions": model.max_positions,
        "projected_dim": model.projected_dim,
        "sharing": str(model.sharing),
        "updates": cfg["optimization"]["max_update"],
        "parameters": count_parameters(demo / "logs/pretrain.log"),
        "unigram_bits": level.unigram_bits,
        "unigram_perplexity": level.unigram_perplexity,
        "context_free_bits": level.masked_bits,
        "context_free_perplexity": level.masked_perplexity,
        **{f"bits_{when}": last_value(log, "valid_loss") for when, log in logs.items()},
        **{f"perplexity_{when}": last_value(log, "valid_ppl") for when, log in logs.items()},
        "majority_percent": 100.0 * Counter(labels).most_common(1)[0][1] / len(labels),
        "accuracy_percent": last_value(demo / "logs/score.log", "valid_accuracy"),
        "classes": len(set(labels)),
        "examples": len(labels),
        "seconds": {step.name: int(step.read_text()) for step in steps},
        "apex": has_fused_layernorm,
        "files": {
            str(demo / name): (demo / name).stat().st_size
            for name in (PRETRAINED, FINETUNED, "spm/spm.model", "spm/dict.txt")
        },
    }


def failures(summary: dict) -> list[str]:
    """A sentence per claim of the demo that does not hold."""
    found = []
    if not summary["perplexity_after"] < summary["context_free_perplexity"]:
        found.append(
            f"The validation perplexity, {summary['perplexity_after']:.1f}, is not below that of a model without "
            f"context, {summary['context_free_perplexity']:.1f}: nothing was learned from context."
        )
    if not summary["accuracy_percent"] > summary["majority_percent"]:
        found.append(
            f"The accuracy, {summary['accuracy_percent']:.1f} %, is not above that of always predicting the most "
            f"frequent class, {summary['majority_percent']:.1f} %."
        )
    return found


def table(summary: dict) -> str:
    """The summary as text: a line per number, with its unit and its baseline."""
    s = summary
    shape = f"n = {s['max_positions']}, k = {s['projected_dim']}, sharing {s['sharing']}"
    rows = [
        ("model", f"linformer_roberta, {shape}, {s['parameters']:,} parameters"),
        ("apex (optional)", "importable" if s["apex"] else "not importable; PyTorch's own kernels"),
        ("", ""),
        ("masked LM, validation split", "perplexity   bits per token"),
        *(
            (name, f"{s[f'{key}_perplexity']:10.1f}   {s[f'{key}_bits']:14.2f}")
            for name, key in (("  unigram entropy", "unigram"), ("  best without context", "context_free"))
        ),
        *(
            (name, f"{s[f'perplexity_{when}']:10.1f}   {s[f'bits_{when}']:14.2f}")
            for name, when in (("  untrained", "before"), (f"  after {s['updates']:,} updates", "after"))
        ),
        ("", ""),
        (f"which of {s['classes']} packages?", f"accuracy on {s['examples']} held-out docstrings"),
        ("  most frequent class", f"{s['majority_percent']:10.1f} %"),
        ("  finetuned", f"{s['accuracy_percent']:10.1f} %"),
        ("", ""),
    ]
    seconds = {**s["seconds"], "together": sum(s["seconds"].values())}
    rows += [("steps" * (i == 0), f"{n:10} s  {name}") for i, (name, n) in enumerate(seconds.items())]
    rows += [("", "")] + [
        ("files" * (i == 0), f"{size / 1024:8,.0f} KiB  {name}") for i, (name, size) in enumerate(s["files"].items())
    ]
    return "\n".join(f"{name:<30} {value}".rstrip() for name, value in rows).rstrip()


def draw(demo: Path, summary: dict) -> None:
    """Write curves.png: pretraining losses next to finetuning accuracy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"Linformer, n = {summary['max_positions']}, k = {summary['projected_dim']}, sharing {summary['sharing']}",
        fontsize=11,
    )
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.plot(*zip(*series(demo / "logs/pretrain.log", "train_inner", "loss")), color="0.65", label="train")
    left.plot(
        *zip(*series(demo / "logs/pretrain.log", "valid", "loss")),
        color="#0b4f8a",
        marker="o",
        markersize=4,
        label="valid",
    )
    left.axhline(summary["context_free_bits"], color="black", linestyle="--", linewidth=1.2, label="without context")
    left.set(title="Pretraining (masked LM)", xlabel="updates", ylabel="loss, bits per predicted token")
    right.plot(
        *zip(*series(demo / "logs/finetune.log", "valid", "accuracy")),
        color="#b3420a",
        marker="s",
        markersize=4,
        label="valid",
    )
    right.axhline(
        summary["majority_percent"], color="black", linestyle="--", linewidth=1.2, label="most frequent class"
    )
    right.set(title="Finetuning", xlabel="updates", ylabel="accuracy, %", ylim=(0, 100))
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.grid(axis="y", color="0.9")
    with open_atomic(demo / "curves.png", "wb") as file:
        figure.savefig(file, format="png")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", metavar="FOLDER", type=Path)
    demo = parser.parse_args(arguments).demo
    # Importing fairseq sets the root logger to DEBUG, at which matplotlib logs every font.
    logging.getLogger().setLevel(logging.WARNING)
    try:
        summary = summarize(demo)
        draw(demo, summary)
        with open_atomic(demo / "summary.json") as file:
            json.dump(summary, file, indent=2)
    except (OSError, ValueError) as error:
        sys.exit(f"demo: {error}")
    print(table(summary))
    if found := failures(summary):
        sys.exit("\n".join(["", *found]))


if __name__ == "__main__":
    main()
