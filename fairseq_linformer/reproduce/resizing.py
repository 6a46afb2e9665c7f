"""What a trained model loses by ``convert resize``, before it is trained on.

    python -m fairseq_linformer.reproduce.resizing OUT --wiki WIKI --results results --data "wiki: ..."

trains the staggered model of n = 512, k = 256 of ``projection_runs.py`` once more, keeps it, gives
it other lengths and other k, and validates all of them on the same text, cut into inputs of
one length or the other. Folders are as there.
"""

import argparse
import logging
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Optional, Tuple

from ..checkpoints.files import read_checkpoint, write_checkpoint
from ..checkpoints.resize import resize
from . import ledger
from .ledger import Entry, Measurement, current_commit
from .projection_report import COMMAND, RESIZING, written
from .projection_runs import Run, execute
from .real_text import training_seconds

TRAINED = Run("resizing", 512, 256, "headwise", "staggered", 1, 1 / 64, init="staggered")
CASES: Dict[str, Tuple[Optional[Tuple[int, int]], int]] = {
    "n=512 k=256 as trained, inputs of 512": (None, 512),
    "n=1024 k=512, inputs of 512": ((1024, 512), 512),
    "n=1024 k=256, inputs of 512": ((1024, 256), 512),
    "n=512 k=128, inputs of 512": ((512, 128), 512),
    "n=512 k=256 as trained, inputs of 256": (None, 256),
    "n=256 k=128, inputs of 256": ((256, 128), 256),
    "n=1024 k=512, inputs of 1024": ((1024, 512), 1024),
}
"""The n and k that the model is given, or None, and the length of the inputs."""


def perplexity(checkpoint: Path, data: Path, length: int) -> float:
    """Of the validation split, cut into inputs of ``length`` tokens.

    Raises:
        ValueError: fairseq-validate says none.
    """
    done = subprocess.run(
        ["fairseq-validate", str(data), "--user-dir", str(Path(__file__).parents[1]), "--task", "masked_lm",
         "--path", str(checkpoint), "--model-overrides", f"{{'tokens_per_sample': {length}}}",
         "--batch-size", str(8192 // length), "--required-batch-size-multiple", "1",
         "--cpu", "--num-workers", "0", "--log-format", "json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = re.findall(r'"valid_loss": "([\d.]+)"', done.stdout + done.stderr)
    if not found:
        raise ValueError(f"fairseq-validate gave no loss of {checkpoint}")
    return 2 ** float(found[-1])


def measure(out: Path, wiki: Path) -> Dict[str, Measurement]:
    """The perplexity of each case; the model is trained if it is not there."""
    execute(TRAINED, out, wiki, wiki, current_commit(), keep=True)
    trained = out / TRAINED.name / "checkpoint_last.pt"
    checkpoints = {None: trained}
    measured = {}
    for name, (shape, length) in CASES.items():
        if shape not in checkpoints:
            checkpoints[shape] = trained.with_name("n{}-k{}.pt".format(*shape))
            checkpoints[shape].unlink(missing_ok=True)
            write_checkpoint(resize(read_checkpoint(trained), *shape), checkpoints[shape])
        checkpoint = checkpoints[shape]
        measured[name] = Measurement(round(perplexity(checkpoint, wiki / "bin", length), 2), "perplexity", None, 1)
        print(f"{name}: {measured[name].value}", flush=True)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wiki", type=Path, required=True, help="the folder of scripts/real_text.sh")
    parser.add_argument("--data", required=True, help="what the text is, in words")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    try:
        begun = time.time()
        folder = options.out / TRAINED.name
        measured = measure(options.out, options.wiki)
        entry = Entry(
            identifier=RESIZING,
            claim="A Linformer of n = 512, k = 256, from a converted RoBERTa, Wikipedia, 1,500 updates of 2,048 tokens, given "
            "another n and k by convert resize and not trained on: perplexity on held-out text by the length of its inputs",
            paper={"value": None, "where": "the paper trains a model for each length"},
            measured=measured,
            commit="; ".join(sorted({(folder / "commit").read_text().strip(), current_commit()})),
            configuration={"training": written(TRAINED), "threads": 1},
            seconds=round(max(time.time() - begun, training_seconds(folder / "train.log")), 1),
            **ledger.circumstances(options.data, COMMAND),
        )
        print(ledger.write(entry, options.results))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"resizing: {error}")


if __name__ == "__main__":
    main()
