"""The numbers of ``scripts/demo.sh``, next to their controls; exits with status 1 if the model did not learn.

    python scripts/demo_scores.py data/demo

Every number comes from the files that the demo's commands wrote there: fairseq's logs, the binarized text, the labels.
"""

import sys
from pathlib import Path

from fairseq_linformer.checkpoints.files import get_cfg_section, read_checkpoint
from fairseq_linformer.fairseq_log import read_split
from fairseq_linformer.files import read_json
from fairseq_linformer.reproduction import context_free

PRETRAINED = "pretrain/checkpoint_last.pt"


def read_scores(demo: Path) -> dict[str, float]:
    """Perplexities of masked language modeling, and accuracies in percent, on the validation splits."""

    def last(log: str) -> dict[str, float]:
        lines = (demo / "logs" / f"{log}.log").read_text(encoding="utf-8").splitlines()
        return list(read_split(lines, "valid"))[-1]

    n = get_cfg_section(read_checkpoint(demo / PRETRAINED), "task")["tokens_per_sample"]
    classes = read_json(demo / "data/task/manifest.json")["splits"]["valid"]["classes"].values()
    return {
        "untrained": last("validate-before")["valid_ppl"],
        "best without context": 2 ** context_free.measure_bits(demo / "data/text/shard0", n),
        "pretrained": last("validate-after")["valid_ppl"],
        "most frequent class": 100 * max(classes) / sum(classes),
        "finetuned": last("score")["valid_accuracy"],
    }


def failures(scores: dict[str, float]) -> list[str]:
    """A sentence per claim of the demo that does not hold."""
    found = []
    if not scores["pretrained"] < scores["best without context"]:
        found.append("The perplexity is not below that of a model without context: nothing was learned from context.")
    if not scores["finetuned"] > scores["most frequent class"]:
        found.append("The accuracy is not above that of always predicting the most frequent class.")
    return found


def main(demo: Path) -> None:
    scores = read_scores(demo)
    for title, unit, names in (("masked-LM perplexity", "", list(scores)[:3]), ("accuracy", " %", list(scores)[3:])):
        for name in names:
            print(f"{title + ', ' + name:44}{scores[name]:10.1f}{unit}")
    if found := failures(scores):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
