"""``prepare pretraining`` and the stock route, in turn, on the same text and the same processors.

    python -m fairseq_linformer.reproduce.preparing OUT --gpt2 FOLDER --source FILE --source FILE --data "wiki, books"

The text that both tokenise is what ``prepare`` reads: its documents, cleaned and split, are written to
files once, for the stock route (fairseq's ``multiprocessing_bpe_encoder``, then ``fairseq-preprocess``).
Its .bin and .idx must come out byte for byte as ours.
"""

import argparse
import logging
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Dict, List, Tuple

from ..corpus import sources
from ..corpus.chunks import hash_of
from ..corpus.documents import Unfit, documents, lines_of
from ..corpus.options import Options
from ..corpus.plan import make_plan
from ..files import sha256
from . import ledger
from .ledger import Entry, Measurement, current_commit


def export(options: Options, folder: Path) -> None:
    """Write ``train.txt`` and ``valid.txt``: a line a paragraph, a blank line behind each document."""
    parsed = [sources.parse(source) for source in options.sources]
    seen = set()
    with open(folder / "train.txt", "w", encoding="utf-8") as train, open(folder / "valid.txt", "w", encoding="utf-8") as valid:
        for chunk in make_plan(parsed, 1 << 24).chunks:
            for raw in documents(chunk, parsed[chunk.source]):
                try:
                    lines = lines_of(raw)
                except Unfit:
                    continue
                key = hash_of("\n".join(lines))
                if lines and key not in seen:
                    seen.add(key)
                    split = valid if key[0] < options.valid_share * 2**64 else train
                    split.write("".join(f"{line}\n" for line in [*lines, ""]))


def stock(texts: Path, out: Path, gpt2: Path, workers: int) -> List[List[str]]:
    """Its commands."""
    import fairseq.examples.roberta.multiprocessing_bpe_encoder as encoder

    encode = [
        [sys.executable, encoder.__file__, "--encoder-json", str(gpt2 / "encoder.json"), "--vocab-bpe", str(gpt2 / "vocab.bpe"),
         "--inputs", str(texts / f"{split}.txt"), "--outputs", str(out / f"{split}.bpe"), "--keep-empty", "--workers", str(workers)]
        for split in ("train", "valid")
    ]  # fmt: skip
    return [*encode, ["fairseq-preprocess", "--only-source", "--srcdict", str(gpt2 / "dict.txt"), "--trainpref", str(out / "train.bpe"),
                      "--validpref", str(out / "valid.bpe"), "--destdir", str(out / "bin"), "--workers", str(workers)]]  # fmt: skip


def timed(commands: List[List[str]]) -> Tuple[float, int]:
    """Seconds that they take one after the other, and the most memory that one has with all its processes, in bytes.

    Raises:
        ValueError: a command fails; with the last line that it said.
    """
    most, begun = 0, time.monotonic()
    for command in commands:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said: List[str] = []
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))
        reader.start()
        while process.poll() is None:
            most = max(most, _memory(process.pid))
            time.sleep(0.1)
        reader.join()
        if process.returncode != 0:
            last = (said[0].strip().splitlines() or ["it said nothing"])[-1]
            raise ValueError(f"{' '.join(command[:3])} ended with {process.returncode}: {last}")
    return time.monotonic() - begun, most


def _memory(pid: int) -> int:
    """Bytes that a process and those it has started hold; what they share is counted for each."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # ended meanwhile
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_memory(int(child)) for child in children)


def measure(out: Path, options: Options, workers: int, rounds: int) -> Tuple[Dict[str, Measurement], float]:
    """Both routes in turn.

    Raises:
        ValueError: a command fails, or the bytes differ.
    """
    out.mkdir(parents=True, exist_ok=True)
    export(options, out)
    gpt2, seconds, memory = Path(options.gpt2), {"ours": [], "stock": []}, {"ours": [], "stock": []}
    for _ in range(rounds):
        for route in ("ours", "stock"):
            folder = out / route
            shutil.rmtree(folder, ignore_errors=True)
            if route == "stock":
                folder.mkdir()
            words = [sys.executable, "-m", "fairseq_linformer.cli", *shlex.split(options.command(folder))[1:], "--workers", str(workers)]
            taken, most = timed([words] if route == "ours" else stock(out, folder, gpt2, workers))
            seconds[route].append(taken)
            memory[route].append(most)
            print(f"{route}: {taken:.1f} s, {most / 1e6:.0f} MB", flush=True)
    for name in ("train.bin", "train.idx", "valid.bin", "valid.idx"):
        if sha256(out / "ours" / "shard0" / name) != sha256(out / "stock" / "bin" / name):
            raise ValueError(f"{name} differs from that of the stock route")
    size = sum((out / f"{split}.txt").stat().st_size for split in ("train", "valid"))
    measured = {
        f"{route}_megabytes_per_second": _spread([size / 1e6 / s for s in seconds[route]], "MB/s") for route in ("ours", "stock")
    }
    measured["ours_over_stock"] = _spread([b / a for a, b in zip(seconds["ours"], seconds["stock"])], "ratio")
    for route in ("ours", "stock"):
        measured[f"{route}_memory"] = _spread([most / 2**20 for most in memory[route]], "MiB")
    measured["text"] = Measurement(round(size / 1e6, 1), "MB", None, 1)
    return measured, sum(map(sum, seconds.values()))


def _spread(values: List[float], unit: str) -> Measurement:
    rounded = [round(value, 2) for value in values]
    return Measurement(round(statistics.median(values), 2), unit, [min(rounded), max(rounded)] if len(values) > 1 else None, len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpt2", required=True)
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--data", required=True, help="what the text is, in words")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    try:
        measured, seconds = measure(args.out, Options(tuple(args.source), args.gpt2), args.workers, args.rounds)
        entry = Entry(
            identifier="preparing-speed",
            claim=f"Text to GPT-2's numbers in .bin and .idx, {args.workers} processes: prepare pretraining and the stock route "
            "(multiprocessing_bpe_encoder, fairseq-preprocess) in turn, byte-identical; memory of all processes together",
            paper={"value": None, "where": "the paper says nothing of it"},
            measured=measured,
            commit=current_commit(),
            configuration={"workers": args.workers, "rounds": args.rounds, "tokenizer": "gpt2"},
            seconds=round(seconds, 1),
            **ledger.circumstances(args.data, "scripts/prepare.sh DATA OUT"),
        )
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"preparing: {error}")
    print(ledger.write(entry, args.results))


if __name__ == "__main__":
    main()
