"""What ``scripts/demo.sh`` has shown: a table, a figure, and whether it worked.

    python -m fairseq_linformer.reproduce.demo data/demo

prints the table and writes curves.png and summary.json into the folder. Every number comes
from what the commands of the demo left there: fairseq's logs and checkpoints, the binarised
text, the labels. The exit status is 1, with a sentence, if the model did not learn.
"""

import argparse
import json
import logging
import re
import sys
from collections import Counter
from pathlib import Path
from typing import List, Optional

from ..fairseq_log import numbers
from ..files import atomic
from . import context_free, curves

# Where scripts/demo.sh puts things, below its folder.
TEXT, TASK_LABELS = "bin/text", "corpus/task/valid.label"
PRETRAINED, FINETUNED = "pretrain/checkpoint_last.pt", "finetune/checkpoint_best.pt"


def last_stats(log, key: str) -> dict:
    """The numbers of the last JSON line of a fairseq log (``--log-format json``) that has ``key``.

    Raises:
        FileNotFoundError: no such log.
        ValueError: no such line in it.
    """
    for line in reversed(Path(log).read_text(encoding="utf-8").splitlines()):
        if (found := numbers(line)) and key in found[1]:
            return found[1]
    raise ValueError(f"{log} has no line with {key}")


def parameters(log) -> int:
    """Parameters of the model, as ``fairseq-train`` counted them; a shared one counts once.

    Raises:
        ValueError: the log has no such line.
    """
    found = re.search(r"num\. shared model params: ([\d,]+)", Path(log).read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{log} does not say how many parameters the model has")
    return int(found[1].replace(",", ""))


def majority_percent(labels) -> float:
    """Share of the most frequent line of a file of labels, in percent.

    Raises:
        ValueError: the file is empty.
    """
    counts = Counter(Path(labels).read_text(encoding="utf-8").split())
    if not counts:
        raise ValueError(f"{labels} is empty")
    return 100.0 * counts.most_common(1)[0][1] / counts.total()


def summarise(run) -> dict:
    """Gather the numbers of a finished demo and draw its curves.

    Args:
        run: folder of the demo.

    Returns:
        What summary.json holds: perplexities and bits a predicted token, accuracies in
        percent, times in seconds, sizes in bytes.

    Raises:
        FileNotFoundError: a step has not left what it should.
        ValueError: a log does not hold what it should.
    """
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu
    from fairseq.modules.layer_norm import has_fused_layernorm

    run = Path(run)
    # str: fairseq's file layer takes no Path
    cfg = load_checkpoint_to_cpu(str(run / PRETRAINED))["cfg"]
    model, task = cfg["model"], cfg["task"]
    level = context_free.measure(
        run / TEXT, task.tokens_per_sample, task.random_token_prob, task.leave_unmasked_prob
    )
    before = last_stats(run / "logs/validate-before.log", "valid_loss")
    after = last_stats(run / "logs/validate-after.log", "valid_loss")
    labels = (run / TASK_LABELS).read_text(encoding="utf-8").split()
    majority = majority_percent(run / TASK_LABELS)
    figure = run / "curves.png"
    curves.draw(
        figure,
        train_loss=curves.read(run / "pretrain/tensorboard", "train_inner", "loss"),
        valid_loss=curves.read(run / "pretrain/tensorboard", "valid", "loss"),
        context_free_bits=level.masked_bits,
        accuracy=curves.read(run / "finetune/tensorboard", "valid", "accuracy"),
        majority_percent=majority,
        title=f"Linformer, n = {model.max_positions}, k = {model.projected_dim}, "
        f"sharing {model.sharing}",
    )
    steps = sorted((run / "done").iterdir(), key=lambda mark: mark.stat().st_mtime)
    products = [PRETRAINED, FINETUNED, "spm/spm.model", "spm/dict.txt", figure.name]
    return {
        "max_positions": model.max_positions,
        "projected_dim": model.projected_dim,
        "sharing": str(model.sharing),
        "updates": cfg["optimization"]["max_update"],
        "parameters": parameters(run / "logs/pretrain.log"),
        "unigram_bits": level.unigram_bits,
        "unigram_perplexity": level.unigram_perplexity,
        "context_free_bits": level.masked_bits,
        "context_free_perplexity": level.masked_perplexity,
        "bits_before": before["valid_loss"],
        "perplexity_before": before["valid_ppl"],
        "bits_after": after["valid_loss"],
        "perplexity_after": after["valid_ppl"],
        "majority_percent": majority,
        "accuracy_percent": last_stats(run / "logs/score.log", "valid_accuracy")["valid_accuracy"],
        "classes": len(set(labels)),
        "examples": len(labels),
        "seconds": {step.name: int(step.read_text()) for step in steps},
        "apex": has_fused_layernorm,
        "files": {str(run / name): (run / name).stat().st_size for name in products},
    }


def failures(summary: dict) -> List[str]:
    """What the demo was to show and did not: a sentence each, none if it worked."""
    found = []
    if not summary["perplexity_after"] < summary["context_free_perplexity"]:
        found.append(
            f"The validation perplexity, {summary['perplexity_after']:.1f}, is not below that of "
            f"a model without context, {summary['context_free_perplexity']:.1f}: nothing was "
            "learnt from context."
        )
    if not summary["accuracy_percent"] > summary["majority_percent"]:
        found.append(
            f"The accuracy, {summary['accuracy_percent']:.1f} %, is not above that of always "
            f"answering with the most frequent class, {summary['majority_percent']:.1f} %."
        )
    return found


def table(summary: dict) -> str:
    """The summary for a reader: one line a number, its unit, and what to compare it with."""
    s = summary
    rows = [
        ("model", f"linformer_roberta, n = {s['max_positions']}, k = {s['projected_dim']}, "
                  f"sharing {s['sharing']}, {s['parameters']:,} parameters"),
        ("apex (optional)", "importable" if s["apex"] else "not importable; PyTorch's own kernels"),
        ("", ""),
        ("masked LM, validation split", "perplexity   bits a token"),
        ("  untrained", _level(s["perplexity_before"], s["bits_before"])),
        ("  unigram entropy", _level(s["unigram_perplexity"], s["unigram_bits"])),
        ("  best without context", _level(s["context_free_perplexity"], s["context_free_bits"])),
        (f"  after {s['updates']:,} updates", _level(s["perplexity_after"], s["bits_after"])),
        ("", ""),
        (f"which of {s['classes']} packages?", f"accuracy on {s['examples']} held-out docstrings"),
        ("  most frequent class", f"{s['majority_percent']:10.1f} %"),
        ("  finetuned", f"{s['accuracy_percent']:10.1f} %"),
        ("", ""),
    ]  # fmt: skip
    seconds = {**s["seconds"], "together": sum(s["seconds"].values())}
    steps = [f"{n:10} s  {name}" for name, n in seconds.items()]
    files = [f"{size / 1024:8,.0f} KiB  {name}" for name, size in s["files"].items()]
    for title, lines in (("steps", steps), ("files", files)):
        rows += [(title, lines[0]), *(("", line) for line in lines[1:]), ("", "")]
    return "\n".join(f"{name:<30} {value}".rstrip() for name, value in rows).rstrip()


def _level(perplexity: float, bits: float) -> str:
    return f"{perplexity:10.1f}   {bits:12.2f}"


def main(arguments: Optional[List[str]] = None) -> None:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_linformer.reproduce.demo",
        description="Print what the demo has shown; write its curves.png and summary.json.",
    )
    parser.add_argument("run", metavar="FOLDER", type=Path)
    options = parser.parse_args(arguments)
    # Importing fairseq sets the root logger to DEBUG, and matplotlib tells about every font.
    logging.getLogger().setLevel(logging.WARNING)
    try:
        summary = summarise(options.run)
        with atomic(options.run / "summary.json") as file:
            json.dump(summary, file, indent=2)
            file.write("\n")
    except (OSError, ValueError) as error:
        sys.exit(f"demo: {error}")
    print(table(summary))
    failed = failures(summary)
    if failed:
        sys.exit("\n".join(["", *failed]))


if __name__ == "__main__":
    main()
