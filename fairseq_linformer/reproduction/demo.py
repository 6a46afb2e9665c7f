"""Results of ``scripts/demo.sh``: a table, a figure, and whether the model learned.

    python -m fairseq_linformer.reproduction.demo data/demo

Prints the table and writes curves.svg and summary.json into the folder. Every number comes from the files that the
demo's commands wrote there: fairseq's logs and checkpoints, the binarized text, the labels. Exits with status 1 if the
model did not learn.
"""

import logging
import re
import sys
from pathlib import Path
from typing import Any

from ..checkpoints.files import get_cfg_section, read_checkpoint
from ..fairseq_log import read_curve, read_split
from ..files import open_atomic, read_json, write_json
from . import context_free
from .display import Panel, draw

PRETRAINED, FINETUNED = "pretrain/checkpoint_last.pt", "finetune/checkpoint_best.pt"

TABLE = """\
model                          linformer_roberta, {shape}, {parameters:,} parameters

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


def read_lines(demo: Path, log: str) -> list[str]:
    return (demo / "logs" / f"{log}.log").read_text(encoding="utf-8").splitlines()


def summarize(demo: Path) -> dict[str, Any]:
    """The numbers of a finished demo: bits per predicted token, accuracies in percent, seconds, bytes."""
    checkpoint = read_checkpoint(demo / PRETRAINED)
    model = get_cfg_section(checkpoint, "model")
    level = context_free.measure(demo / "data/text/shard0", get_cfg_section(checkpoint, "task")["tokens_per_sample"])
    classes = read_json(demo / "data/task/manifest.json")["splits"]["valid"]["classes"].values()
    counted = re.search(r"num\. shared model params: ([\d,]+)", "\n".join(read_lines(demo, "pretrain")))
    scores = {
        log: list(read_split(read_lines(demo, log), "valid"))[-1]
        for log in ("score", "validate-before", "validate-after")
    }
    steps = sorted((demo / "done").iterdir(), key=lambda mark: mark.stat().st_mtime)
    files = (PRETRAINED, FINETUNED, "spm/spm.model", "spm/dict.txt")
    return {
        "shape": f"n = {model['max_positions']}, k = {model['projected_dim']}, sharing {model['sharing']}",
        "updates": get_cfg_section(checkpoint, "optimization")["max_update"],
        "parameters": int(counted[1].replace(",", "")) if counted else 0,
        "unigram_bits": level.unigram_bits,
        "unigram_perplexity": 2**level.unigram_bits,
        "context_free_bits": level.masked_bits,
        "context_free_perplexity": 2**level.masked_bits,
        **{f"bits_{when}": scores[f"validate-{when}"]["valid_loss"] for when in ("before", "after")},
        **{f"perplexity_{when}": scores[f"validate-{when}"]["valid_ppl"] for when in ("before", "after")},
        "majority_percent": 100.0 * max(classes) / sum(classes),
        "accuracy_percent": scores["score"]["valid_accuracy"],
        "classes": len(classes),
        "examples": sum(classes),
        "seconds": {step.name: int(step.read_text()) for step in steps},
        "files": {str(demo / name): (demo / name).stat().st_size for name in files},
    }


def failures(summary: dict[str, Any]) -> list[str]:
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


def table(summary: dict[str, Any]) -> str:
    """The summary as text: a line per number, with its unit and its baseline."""
    seconds = {**summary["seconds"], "together": sum(summary["seconds"].values())}
    next_line = "\n" + 31 * " "
    return TABLE.format(
        **summary,
        after=f"  after {summary['updates']:,} updates",
        packages=f"which of {summary['classes']} packages?",
        steps=next_line.join(f"{each:10} s  {name}" for name, each in seconds.items()),
        sizes=next_line.join(f"{size / 1024:8,.0f} KiB  {name}" for name, size in summary["files"].items()),
    )


def chart(demo: Path, summary: dict[str, Any]) -> list[Panel]:
    """Pretraining losses next to finetuning accuracy."""
    pretraining, finetuning = read_lines(demo, "pretrain"), read_lines(demo, "finetune")
    losses = {
        split: [read_curve(pretraining, log, "loss")] for split, log in (("train", "train_inner"), ("valid", "valid"))
    }
    accuracy = {"valid": [read_curve(finetuning, "valid", "accuracy")]}
    without, majority = summary["context_free_bits"], summary["majority_percent"]
    title = f"Pretraining, {summary['shape']}"
    return [
        Panel(title, "updates", "loss, bits per predicted token", losses, {"without context": without}),
        Panel("Finetuning", "updates", "accuracy, %", accuracy, {"most frequent class": majority}),
    ]


def main(demo: Path) -> None:
    # Importing fairseq sets the root logger to DEBUG, at which matplotlib logs every font.
    logging.getLogger().setLevel(logging.WARNING)
    summary = summarize(demo)
    with open_atomic(demo / "curves.svg") as file:
        file.write(draw(chart(demo, summary)))
    write_json(demo / "summary.json", summary)
    print(table(summary))
    if found := failures(summary):
        sys.exit("\n".join(["", *found]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
