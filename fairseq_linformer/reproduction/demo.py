"""Results of ``scripts/demo.sh``: a table, a figure, and whether the model learned.

    python -m fairseq_linformer.reproduction.demo data/demo

Prints the table and writes curves.svg and summary.json into the folder. Every number comes from the files that the
demo's commands wrote there: fairseq's logs and checkpoints, the binarized text, the labels. Exits with status 1 if the
model did not learn.
"""

import argparse
import json
import logging
import re
import sys
from pathlib import Path

from ..fairseq_log import read_split
from ..files import open_atomic, read_json
from . import context_free
from .display import Panel, draw

TEXT, TASK = "data/text/shard0", "data/task/manifest.json"
PRETRAINED, FINETUNED = "pretrain/checkpoint_last.pt", "finetune/checkpoint_best.pt"

TABLE = """\
model                          linformer_roberta, {shape}, {parameters:,} parameters
apex (optional)                {kernels}

masked LM, validation split    perplexity   bits per token
  unigram entropy              {unigram_perplexity:10.1f}   {unigram_bits:14.2f}
  best without context         {context_free_perplexity:10.1f}   {context_free_bits:14.2f}
  untrained                    {perplexity_before:10.1f}   {bits_before:14.2f}
{after:<30} {perplexity_after:10.1f}   {bits_after:14.2f}

{packages:<30} accuracy on {examples} held-out docstrings
  most frequent class          {majority_percent:10.1f} %
  finetuned                    {accuracy_percent:10.1f} %

steps                          {steps}

files                          {sizes}"""


def read_values(log: Path, split: str, name: str) -> list[tuple[int, float]]:
    """(update, value) of a name in fairseq's log, updates rising; the later value if a restart logged an update again.

    Without updates, as when scoring, the last value.

    Raises:
        ValueError: there is none.
    """
    found = {
        int(stats.get("num_updates", stats.get("valid_num_updates", 0))): stats[name]
        for stats in read_split(log.read_text(encoding="utf-8").splitlines(), split)
        if name in stats
    }
    if not found:
        raise ValueError(f"{log} has no {name!r} of split {split!r}")
    return sorted(found.items())


def last_value(log: Path, name: str) -> float:
    return read_values(log, "valid", name)[-1][1]


def count_parameters(log: Path) -> int:
    """Parameters of the model, as ``fairseq-train`` logs them; a shared one counts once.

    Raises:
        ValueError: the log lacks the number.
    """
    found = re.search(r"num\. shared model params: ([\d,]+)", log.read_text(encoding="utf-8"))
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
    model = cfg["model"]
    level = context_free.measure(demo / TEXT, cfg["task"].tokens_per_sample)
    classes = read_json(demo / TASK)["splits"]["valid"]["classes"].values()
    steps = sorted((demo / "done").iterdir(), key=lambda mark: mark.stat().st_mtime)
    logs = {"before": demo / "logs/validate-before.log", "after": demo / "logs/validate-after.log"}
    return {
        "max_positions": model.max_positions,
        "projected_dim": model.projected_dim,
        "sharing": str(model.sharing),
        "updates": cfg["optimization"]["max_update"],
        "parameters": count_parameters(demo / "logs/pretrain.log"),
        "unigram_bits": level.unigram_bits,
        "unigram_perplexity": 2**level.unigram_bits,
        "context_free_bits": level.masked_bits,
        "context_free_perplexity": 2**level.masked_bits,
        **{f"bits_{when}": last_value(log, "valid_loss") for when, log in logs.items()},
        **{f"perplexity_{when}": last_value(log, "valid_ppl") for when, log in logs.items()},
        "majority_percent": 100.0 * max(classes) / sum(classes),
        "accuracy_percent": last_value(demo / "logs/score.log", "valid_accuracy"),
        "classes": len(classes),
        "examples": sum(classes),
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


def shape(summary: dict) -> str:
    return "n = {max_positions}, k = {projected_dim}, sharing {sharing}".format_map(summary)


def table(summary: dict) -> str:
    """The summary as text: a line per number, with its unit and its baseline."""
    seconds = {**summary["seconds"], "together": sum(summary["seconds"].values())}
    next_line = "\n" + 31 * " "
    return TABLE.format(
        **summary,
        shape=shape(summary),
        kernels="importable" if summary["apex"] else "not importable; PyTorch's own kernels",
        after=f"  after {summary['updates']:,} updates",
        packages=f"which of {summary['classes']} packages?",
        steps=next_line.join(f"{each:10} s  {name}" for name, each in seconds.items()),
        sizes=next_line.join(f"{size / 1024:8,.0f} KiB  {name}" for name, size in summary["files"].items()),
    )


def chart(demo: Path, summary: dict) -> list[Panel]:
    """Pretraining losses next to finetuning accuracy."""
    pretraining, finetuning = demo / "logs/pretrain.log", demo / "logs/finetune.log"
    losses = {
        "train": [read_values(pretraining, "train_inner", "loss")],
        "valid": [read_values(pretraining, "valid", "valid_loss")],
    }
    accuracy = {"valid": [read_values(finetuning, "valid", "valid_accuracy")]}
    without, majority = summary["context_free_bits"], summary["majority_percent"]
    title = f"Pretraining, {shape(summary)}"
    return [
        Panel(title, "updates", "loss, bits per predicted token", losses, {"without context": without}),
        Panel("Finetuning", "updates", "accuracy, %", accuracy, {"most frequent class": majority}),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", metavar="FOLDER", type=Path)
    demo = parser.parse_args(arguments).demo
    # Importing fairseq sets the root logger to DEBUG, at which matplotlib logs every font.
    logging.getLogger().setLevel(logging.WARNING)
    try:
        summary = summarize(demo)
        with open_atomic(demo / "curves.svg") as file:
            file.write(draw(chart(demo, summary)))
        with open_atomic(demo / "summary.json") as file:
            json.dump(summary, file, indent=2)
    except (OSError, ValueError) as error:
        sys.exit(f"demo: {error}")
    print(table(summary))
    if found := failures(summary):
        sys.exit("\n".join(["", *found]))


if __name__ == "__main__":
    main()
