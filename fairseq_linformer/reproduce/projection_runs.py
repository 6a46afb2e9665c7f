"""How E and F should start and learn: the runs that settle it.

    python -m fairseq_linformer.reproduce.projection_runs OUT FAMILY... --text TEXT --wiki WIKI

TEXT and WIKI are what scripts/demo.sh and scripts/real_text.sh leave behind (their folders):
the text that every Python carries, and Wikipedia with a small RoBERTa that is trained on it.
Every run is stock fairseq-train in one thread, takes one to three minutes, and is skipped if it
is done. scripts/projections.sh is all of it in one command.
"""

import argparse
import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import torch

from ..checkpoints.files import read_checkpoint, write_checkpoint
from ..checkpoints.resize import resize
from ..checkpoints.roberta import from_roberta
from . import projection_starts
from .ledger import current_commit

SEEDS = (1, 2, 3)
START = "start.pt"
SCALES = (1 / 4, 1 / 16, 1 / 64, 1 / 256)


@dataclass(frozen=True)
class Run:
    """One training."""

    family: str
    n: int
    k: int
    sharing: str
    variant: str
    """What is varied in its family: the rate, or the name of a start or a kind."""
    seed: int
    scale: Optional[float] = None
    projection: str = "linear"
    init: Optional[str] = "average"
    start: Optional[str] = None
    """A start of ``projection_starts``, written into the converted checkpoint."""

    @property
    def name(self) -> str:
        """Of its folder."""
        variant = re.sub(r"[^a-z0-9.]+", "-", self.variant)
        return f"{self.family}/n{self.n}-k{self.k}-{self.sharing}-{variant}/seed{self.seed}"

    @property
    def warm(self) -> bool:
        """It starts from the converted RoBERTa."""
        return self.family not in ("scratch", "staggered-scratch", "cold")

    @property
    def updates(self) -> int:
        if not self.warm and self.family != "cold":
            return {16: 1500, 32: 2000, 64: 2500}[self.n]
        return 1500 if self.family in ("longer", "resizing") else 400


def runs() -> Iterator[Run]:
    """All of them, the first seed of everything first."""
    for seed in SEEDS:
        for n in (128, 256, 512):
            yield Run("roberta", n, n, "none", "roberta", seed)
            for scale in SCALES:
                yield Run("converted", n, n // 2, "headwise", _rate(scale), seed, scale)
        for sharing, scale in itertools.product(("none", "key-value", "layerwise"), SCALES[:3]):
            yield Run("sharing", 512, 256, sharing, _rate(scale), seed, scale)
        for k, scale in itertools.product((64, 128), SCALES[:3]):
            yield Run("dimension", 512, k, "headwise", _rate(scale), seed, scale)
        for n, scale in itertools.product((16, 32, 64), (1.0, 1 / 4, 1 / 16)):
            yield Run("scratch", n, n // 4, "headwise", _rate(scale), seed, scale)
        yield Run("cold", 512, 256, "headwise", "from scratch", seed)
        for init in ("normal", "xavier", "jl"):
            yield Run("starts", 512, 256, "headwise", init + " at the full rate", seed, 1.0, init=init)
            yield Run("starts", 512, 256, "headwise", init, seed, 1 / 64, init=init)
        for projection in ("mean-pool", "max-pool", "conv", "random"):
            yield Run("kinds", 512, 256, "headwise", projection, seed, projection=projection,
                      init="average" if projection == "conv" else None)  # fmt: skip
        yield Run("longer", 512, 512, "none", "roberta", seed)
        for init in ("average", "staggered"):
            yield Run("longer", 512, 256, "headwise", init, seed, 1 / 64, init=init)
            for k, sharing in ((256, "key-value"), (256, "none"), (128, "headwise"), (64, "headwise")):
                yield Run("staggered", 512, k, sharing, init, seed, 1 / 64, init=init)
            for n in (32, 64):
                yield Run("staggered-scratch", n, n // 2, "headwise", init, seed, 1 / 4, init=init)
        for start, (sharing, _) in projection_starts.STARTS.items():
            if seed == 1 or start in projection_starts.FINALISTS:
                yield Run("closing", 512, 256, sharing, start, seed, 1 / 64, start=start)


def _rate(scale: float) -> str:
    return f"rate 1/{round(1 / scale)}" if scale < 1 else "rate 1"


def command(run: Run, out: Path, text: Path, wiki: Path, plugin: Path = Path(__file__).parents[1]) -> List[str]:
    """Its ``fairseq-train``, without whether to save."""
    scratch = not run.warm and run.family != "cold"
    tokens = 1024 if scratch else 2048
    if run.variant == "roberta":
        model = "--arch roberta --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4".split()
    else:
        model = ["--arch", "linformer_roberta_tiny", "--projected-dim", str(run.k), "--sharing", run.sharing,
                 "--projection", run.projection]  # fmt: skip
        if run.init is not None:
            model += ["--projection-init", run.init]
        if run.scale is not None:
            model += ["--projection-lr-scale", str(run.scale)]
    schedule = ["--lr", "2e-3", "--lr-scheduler", "fixed", "--warmup-updates", "200"]
    if not scratch:
        schedule = ["--lr", "1e-3", "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(run.updates // 10),
                    "--total-num-update", str(run.updates)]  # fmt: skip
        if run.warm:
            schedule += ["--finetune-from-model", str(out / run.name / START)]
    return [
        "fairseq-train", str(text / "bin/text" if scratch else wiki / "bin"), "--user-dir", str(plugin),
        "--task", "masked_lm", "--criterion", "masked_lm", *model, "--encoder-normalize-before",
        "--dropout", "0", "--attention-dropout", "0", "--tokens-per-sample", str(run.n), "--max-positions", str(run.n),
        "--batch-size", str(tokens // run.n), "--batch-size-valid", str(8192 // run.n), "--required-batch-size-multiple", "1",
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.01",
        "--clip-norm", "1.0", *schedule, "--max-update", str(run.updates), "--validate-interval", "1000000",
        "--validate-interval-updates", str(500 if scratch else 100), "--seed", str(run.seed), "--cpu", "--num-workers", "0",
        "--data-buffer-size", "0", "--log-format", "json", "--log-interval", "100",
        "--save-dir", str(out / run.name),
    ]  # fmt: skip


def _converted(run: Run, wiki: Path) -> Dict[str, Any]:
    """The checkpoint that a run starts from; RoBERTa is cut to n positions."""
    roberta = read_checkpoint(wiki / "roberta-512" / "checkpoint_last.pt")
    if run.variant == "roberta":
        return resize(roberta, run.n)
    torch.manual_seed(run.seed)
    new = from_roberta(roberta, projected_dim=run.k, sharing=run.sharing, max_positions=run.n,
                       projection=run.projection, projection_init=run.init)  # fmt: skip
    if run.start:
        projection_starts.write(new["model"], run.start, run.k, run.n)
    return new


def execute(run: Run, out: Path, text: Path, wiki: Path, commit: str, keep: bool = False) -> None:
    """Train, unless that was done.

    Args:
        keep: save the model that it ends with.
    """
    folder = out / run.name
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [*command(run, out, text, wiki), "--no-epoch-checkpoints" if keep else "--no-save"]
    if run.warm:
        (folder / START).unlink(missing_ok=True)  # of a run that was killed
        write_checkpoint(_converted(run, wiki), folder / START)
    (folder / "commit").write_text(commit + "\n")
    with open(folder / "train.log", "w") as log:
        log.write(shlex.join(arguments) + "\n")
        log.flush()
        # A model this small gains nothing from a second thread.
        subprocess.run(arguments, check=True, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
    (folder / START).unlink(missing_ok=True)
    (folder / "done").touch()
    print(f"{run.name}: {curve(folder)[-1][1]:.1f}", flush=True)


def curve(folder: Path) -> List[List[float]]:
    """(update, validation perplexity) of a run."""
    pairs = re.findall(r'"valid_loss": "([\d.]+)".*?"valid_num_updates": "(\d+)"', (folder / "train.log").read_text())
    return [[int(update), 2 ** float(loss)] for loss, update in pairs]


def results(out: Path) -> Dict[Run, List[List[float]]]:
    """The runs that are done, and their curves."""
    return {run: curve(out / run.name) for run in runs() if (out / run.name / "done").exists()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("families", nargs="+", choices=sorted({run.family for run in runs()}))
    parser.add_argument("--text", type=Path, required=True, help="the folder of scripts/demo.sh")
    parser.add_argument("--wiki", type=Path, required=True, help="the folder of scripts/real_text.sh")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    try:
        commit = current_commit()
        for one in runs():
            if one.family in options.families and one.seed in options.seeds:
                execute(one, options.out, options.text, options.wiki, commit)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"projection_runs: {error}")


if __name__ == "__main__":
    main()
