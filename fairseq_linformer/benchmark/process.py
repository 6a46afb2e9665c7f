"""A whole ``fairseq-train`` process: words a second as it logs them, and the most memory that it had.

Random tokens of RoBERTa's vocabulary are written once; then each model is trained for some updates, in turns.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, List, Tuple

import numpy as np

from ..corpus.binarised import Writer
from ..errors import first_line
from .whole import WITH_FAIRSEQ, _example, why_not

PLUGIN = Path(__file__).parents[1]


@dataclass(frozen=True)
class Process:
    """Processes of one shape.

    Raises:
        ValueError: a model that cannot be trained so, or that is not here.
    """

    n: int
    batch: int
    models: Tuple[str, ...] = WITH_FAIRSEQ
    k: int = 256
    updates: int = 4
    rounds: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    heads: int = 12
    vocabulary: int = 50265
    options: Tuple[str, ...] = ()
    """More options, for this plugin's model only, such as --compile."""

    def __post_init__(self):
        for name in self.models:
            if name not in WITH_FAIRSEQ:
                raise ValueError(f"{name} is not trained by fairseq; {', '.join(WITH_FAIRSEQ)} are")
            if missing := why_not(name):
                raise ValueError(missing)
        if self.updates < 2:
            raise ValueError(f"updates is {self.updates}; it must be at least 2, because the first does not count")

    @property
    def name(self) -> str:
        """process-DEVICE-DTYPE-LAYERS-n[-OPTIONS]."""
        return f"process-{self.device}-{self.dtype}-l{self.layers}-n{self.n}" + "".join(f"-{o.strip('-')}" for o in self.options)

    def operations(self) -> float:
        """As of the steps alone."""
        from .training import Training

        step = Training(self.n, self.batch, self.models, positions=self.n, k=self.k, layers=self.layers, embed_dim=self.embed_dim,
                        heads=self.heads, vocabulary=self.vocabulary)  # fmt: skip
        return self.rounds * self.updates * sum(step.model_operations(name) for name in self.models)

    def measure(self) -> Dict[str, Any]:
        """``words`` a second of each round, the median of its updates but the first, and ``bytes`` of the process that trains."""
        words: Dict[str, List[float]] = {name: [] for name in self.models}
        memory: Dict[str, List[int]] = {name: [] for name in self.models}
        with TemporaryDirectory() as folder:
            self.write_data(Path(folder))
            for i in range(self.rounds):
                for name in list(self.models)[:: -1 if i % 2 else 1]:
                    log, most = run(self.command(name, folder))
                    words[name].append(words_a_second(log))
                    memory[name].append(most)
        return {"words": words, "bytes": memory}

    def write_data(self, folder: Path) -> None:
        """A folder for ``--task masked_lm``."""
        entries = self.vocabulary - 5  # beside <s>, <pad>, </s>, <unk> and <mask>
        (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(entries)))
        rng = np.random.default_rng(0)
        for split in ("train", "valid"):
            writer = Writer(folder / split, np.uint16 if self.vocabulary < 65500 else np.uint32)
            lines = self.batch * (self.updates + 1)
            writer.add(rng.integers(4, 4 + entries, lines * self.n), np.full(lines, self.n))
            writer.finish()

    def command(self, name: str, folder: str) -> List[str]:
        """What is run for a model."""
        arch = {"roberta": "roberta_base"}.get(name, "linformer_roberta_base")
        plugin = {"roberta": [], "authors": ["--user-dir", str(_example() / "linformer_src")], "ours": ["--user-dir", str(PLUGIN)]}[name]
        linear = {
            "roberta": [], "ours": ["--projected-dim", str(self.k), "--sharing", "layerwise", *self.options],
            "authors": ["--compressed", str(self.n // self.k), "--shared-kv-compressed", "1", "--shared-layer-kv-compressed", "1"],
        }[name]  # fmt: skip
        precision = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}[self.dtype]
        device = ["--cpu"] if self.device == "cpu" else []
        return [
            sys.executable, "-c", "from fairseq_cli.train import cli_main; cli_main()", folder, *plugin, "--task", "masked_lm",
            "--criterion", "masked_lm", "--arch", arch, *linear, "--encoder-layers", str(self.layers), "--encoder-embed-dim", str(self.embed_dim),
            "--encoder-ffn-embed-dim", str(4 * self.embed_dim), "--encoder-attention-heads", str(self.heads), "--tokens-per-sample", str(self.n),
            "--batch-size", str(self.batch), "--max-positions", str(self.n), "--optimizer", "adam", "--lr", "1e-5", "--max-update", str(self.updates),
            "--log-format", "json", "--log-interval", "1", "--disable-validation", "--no-save", "--seed", "1", *precision, *device,
        ]  # fmt: skip


def run(command: List[str]) -> Tuple[str, int]:
    """What a command says, and the most memory that its process had, in bytes. The kernel keeps that mark (VmHWM); what
    ``wait`` tells would have this process in it, which was copied for a moment to start the other.

    Raises:
        ValueError: it fails; with its last line.
    """
    most = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        with open(path, "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            while process.poll() is None:
                most = max(most, _high_water_mark(process.pid))
                time.sleep(0.05)
        said = path.read_text(errors="replace")
    if process.returncode != 0:
        raise ValueError(f"{command[0]} ended with {process.returncode}: {first_line((said.strip().splitlines() or [''])[-1])}")
    return said, most


def _high_water_mark(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # ended meanwhile
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) * 1024 if found else 0


def words_a_second(log: str) -> float:
    """The median of ``wps`` in fairseq's JSON log lines, without the first, which has warming up in it.

    Raises:
        ValueError: there are fewer than two.
    """
    found = []
    for line in log.splitlines():
        start = line.find('{"epoch"')
        if start >= 0 and '"wps"' in line:
            found.append(float(json.loads(line[start:])["wps"]))
    if len(found) < 2:
        raise ValueError(f"the log has {len(found)} updates; at least 2 are needed")
    return float(np.median(found[1:]))
