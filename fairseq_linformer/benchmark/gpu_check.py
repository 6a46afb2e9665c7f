"""Checks for a machine with a GPU: correctness, speed, and fairseq's programs, in about 7 minutes on an H100.

    scripts/gpu_check.sh OUT

Each step writes OUT/STEP.json; a rerun repeats only steps that failed or are missing. OUT/table.md has a line for each.
"""

import argparse
import copy
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import PROJECTIONS, SHARING, LinformerConfig
from ..files import open_atomic
from ..machine import provenance
from ..modules import LinformerEncoder
from .measure import Setup, inference, make_cases, training
from .memory import DTYPES
from .rows import Case

ROOT = Path(__file__).parent.parent.parent
BOUNDS = {"fp32": 1e-5, "fp16": 5e-3, "bf16": 2e-2}
"""Relative errors of the features of a small encoder, and of its gradients."""
FORWARD_BAR, STEP_BAR = 1.35, 1.3
"""Goals, which are only reported: time of a forward pass and of a training step with a local window, divided by that
without, from n = 1,024 on."""
PROGRAM_SECONDS = 180
"""A program that takes longer is stopped, and has failed; torchrun ends its workers."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        dtypes: those to compare with double precision.
        setup, k, window: of the encoders that are timed, with and without the local window.
        lengths: n; ``tokens`` are read at a time.
        n, batch, updates: of fairseq's models and trainings.
        precisions: flags of fairseq-train by step.
    """

    dtypes: tuple[str, ...]
    setup: Setup
    k: int
    window: int
    lengths: tuple[int, ...]
    tokens: int
    n: int
    batch: int
    updates: int
    precisions: dict[str, str]


GPU = Sizes(
    dtypes=("fp32", "fp16", "bf16"),
    setup=Setup("cuda", "bf16", vocabulary=1000, rounds=5, warm_up=2),
    k=128,
    window=16,
    lengths=(512, 1024, 2048, 4096, 16384),
    tokens=32768,
    n=512,
    batch=64,
    updates=25,
    precisions={
        "fp16": "--fp16",
        "bf16": "--bf16",
        "amp": "--amp",
        "checkpointed": "--fp16 --checkpoint-activations",
        "offloaded": "--fp16 --checkpoint-activations --offload-activations",
        "compiled": "--fp16 --compile",
    },
)
SMOKE = Sizes(
    dtypes=("fp32", "bf16"),
    setup=Setup("cpu", "bf16", layers=1, embed_dim=64, vocabulary=1000, rounds=1),
    k=8,
    window=2,
    lengths=(32, 64),
    tokens=64,
    n=32,
    batch=8,
    updates=2,
    precisions={"fp16": "", "checkpointed": "--checkpoint-activations"},
)


# ---- correctness


def check_variants(sizes: Sizes) -> dict[str, Any]:
    """Features and gradients of every variant against double precision on the CPU, in each dtype, with padding and
    without."""
    shape, rows = Setup(layers=2, embed_dim=128, vocabulary=100), []
    for sharing, projection, window in itertools.product(SHARING, PROJECTIONS, (0, 16)):
        config = shape.config(Case("linformer", 128, 32, window))
        rows.append(check_variant(sizes, replace(config, sharing=sharing, projection=projection)))
    names = [name for name in rows[0] if name != "variant"]
    worst = {name: float(torch.tensor([row[name] for row in rows]).max()) for name in names}  # nan if one is
    ok = all(error <= BOUNDS[name.split()[0]] for name, error in worst.items())
    return {"ok": ok, "summary": ", ".join(f"{name} {error:.1e}" for name, error in worst.items()), "rows": rows}


def check_variant(sizes: Sizes, config: LinformerConfig) -> dict[str, Any]:
    torch.manual_seed(0)
    encoder = LinformerEncoder(config).double().eval()
    tokens = torch.randint(5, 100, (2, config.max_positions))
    padded = tokens.clone()
    padded[1, 90:] = config.padding_idx
    weights = torch.randn(*tokens.shape, config.embed_dim)
    row: dict[str, Any] = {"variant": f"{config.sharing}, {config.projection}, W = {config.local_window}"}
    for kind, batch in (("", tokens), (" padded", padded)):
        expected = _run_encoder(copy.deepcopy(encoder), batch, weights)
        for name in sizes.dtypes:
            model = copy.deepcopy(encoder).to(sizes.setup.device, DTYPES[name])
            for what, a, b in zip(("", " gradients"), _run_encoder(model, batch, weights), expected):
                row[f"{name}{kind}{what}"] = float((a - b).norm() / b.norm())
    return row


def _run_encoder(encoder: LinformerEncoder, tokens: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Features of real tokens, and the gradients of their weighted sum, in double precision on the CPU."""
    tokens = tokens.to(encoder.embed_tokens.weight.device)
    features = encoder(tokens)[0] * tokens.ne(encoder.config.padding_idx).unsqueeze(-1)
    (features * weights.to(features)).sum().backward()
    gradients = [p.grad.flatten().double().cpu() for p in encoder.parameters() if p.grad is not None]
    return features.detach().double().cpu(), torch.cat(gradients)


# ---- speed


def time_models(sizes: Sizes, n: int) -> dict[str, Any]:
    """Times of a forward pass and of a training step with a local window, divided by those without, and by those of
    full attention."""
    cases = make_cases(("transformer-sdpa", "linformer"), n, (sizes.k,), (0, sizes.window))
    measured = {
        "forward": inference(cases, sizes.tokens, sizes.setup),
        "step": training(cases, sizes.tokens, sizes.setup),
    }
    bars = {"forward over W=0": FORWARD_BAR, "step over W=0": STEP_BAR} if n >= 1024 else {}
    if n >= 2048:
        bars |= {"forward over sdpa": 1.0, "step over sdpa": 1.0}
    ratios: dict[str, float] = {}
    for what, rows in measured.items():
        windowed = {row.metric: row.value for row in rows if row.local_window}
        ratios |= {f"{what} over W=0": windowed["relative_time"], f"{what} over sdpa": 1 / windowed["time_ratio"]}
    summary = ", ".join(f"{name} {r:.2f} (bar {bars.get(name, 'none')})" for name, r in ratios.items())
    return {"ok": True, "summary": f"W={sizes.window}: {summary}", "rows": measured, "ratios": ratios, "bars": bars}


# ---- fairseq


def run_program(words: list[str], must_log: str = "", environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a program; it fails if its status is not 0 or its log lacks ``must_log``."""
    variables = {**os.environ, **(environment or {})}
    limited = ["timeout", "--kill-after=10", str(PROGRAM_SECONDS), *words]
    done = subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=variables)
    losses = re.findall(r'"(?:train_|valid_)?loss": "([\d.]+|nan|inf)"', done.stdout)
    rates = [float(rate) for rate in re.findall(r'"wps": "([\d.]+)"', done.stdout)][1:]  # the first starts the GPU
    ok = done.returncode == 0 and must_log in done.stdout and not {"nan", "inf"} & {*losses}
    result: dict[str, Any] = {"ok": ok, "command": " ".join(words)}
    result |= {"loss": losses[-1:], "tokens_per_second": statistics.median(rates) if rates else None}
    result["summary"] = f"loss {losses[-1] if losses else '-'}, {statistics.median(rates or [0]):,.0f} tokens/s"
    if not ok:
        result |= {"status": done.returncode, "log": done.stdout[-3000:], "summary": done.stdout.strip()[-200:]}
    return result


def program_steps(sizes: Sizes, out: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """fairseq's programs on the data of ``gpu_check.sh OUT --prepare``."""
    text, task = out / "data" / "text" / "shard0", out / "data" / "task"
    on_cpu = sizes.setup.device == "cpu"
    runs = out / f"runs-{sizes.setup.device}"
    checkpoint = runs / "fp16" / "checkpoint_last.pt"
    half = "" if on_cpu else "--fp16"
    common = f"--batch-size {sizes.batch} --required-batch-size-multiple 1 --num-workers 0" + " --cpu" * on_cpu
    optimizer = """
        --optimizer adam --lr 1e-4 --clip-norm 1 --log-format json --log-interval 5 --data-buffer-size 0 --seed 1
        --no-epoch-checkpoints --disable-validation
    """
    plugin = ["--user-dir", str(ROOT / "fairseq_linformer")]
    model = f"""
        --arch linformer_roberta_{"tiny" if on_cpu else "base"} --projected-dim {sizes.k} --sharing layerwise
        --max-positions {sizes.n} --local-window {sizes.window}
    """
    masked = f"--task masked_lm --criterion masked_lm --tokens-per-sample {sizes.n}"

    def program(name: str, *words: str) -> list[str]:
        return [sys.executable, "-m", f"fairseq_cli.{name}", *common.split(), *words]

    def train(name: str, data: Path, options: str, more: Sequence[str] = (), updates: int = sizes.updates) -> list[str]:
        words = f"{optimizer} --max-update {updates} {options}".split()
        return program("train", str(data), "--save-dir", str(runs / name), *words, *more)

    steps: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, flags in sizes.precisions.items():
        unsaved = "" if name == "fp16" else "--no-save"
        steps[name] = partial(run_program, train(name, text, f"{masked} {model} {flags} {unsaved}", plugin))
    resume = train("fp16", text, f"{masked} {model} {half}", plugin, 2 * sizes.updates)
    steps["resume"] = partial(run_program, resume, "Loaded checkpoint")
    validate = ["--task", "masked_lm", "--path", str(checkpoint), "--log-format", "json", *plugin]
    for name, flag in {"validate": half, **({} if on_cpu else {"validate-bf16": "--bf16"})}.items():
        words = program("validate", str(text), *validate, *flag.split())
        steps[name] = partial(run_program, words, "| valid |")
    classify = "--task sentence_prediction --criterion sentence_prediction --num-classes 8 --init-token 0"
    classify += f" --classification-head-name packages --shorten-method truncate --no-save {half}"
    start = [*plugin, "--finetune-from-model", str(checkpoint)]
    steps["finetune"] = partial(run_program, train("finetune", task, f"{model} {classify}", start))
    overrides = f"""
        task.tokens_per_sample={sizes.n} optimization.max_update={sizes.updates} dataset.batch_size={sizes.batch}
        model.projected_dim={sizes.k} dataset.disable_validation=true optimization.update_freq=[1]
    """.split()
    run = "tiny" if on_cpu else "n512-k128-layerwise"
    options = [
        f"--device={sizes.setup.device}",
        f"--runs={runs}",
        "--name=torchrun",
        f"+run={run}",
        f"task.data={text}",
    ]
    torchrun = ["bash", str(ROOT / "scripts" / "torchrun.sh"), *options, *overrides]
    steps["torchrun"] = partial(run_program, torchrun, "", {"PYTHON": sys.executable, "NPROC_PER_NODE": "1"})
    tiny = "--arch roberta --encoder-layers 1 --encoder-embed-dim 32 --encoder-attention-heads 2"
    roberta = f"{tiny if on_cpu else '--arch roberta_base'} --max-positions {sizes.n}"
    fast = f"{masked} {half} --no-save --num-workers 2"  # one process masks fewer tokens than a GPU reads
    for name, shape, more in (("roberta", roberta, []), ("linformer", f"{model} --local-window 0", plugin)):
        words = train(name, text, f"{shape} {fast}", more, 2 * sizes.updates)
        steps[f"{name}-speed"] = partial(run_program, words)
    return steps


# ---- all steps


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="output folder, with the data of --prepare")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU, which show that the steps run")
    parser.add_argument("--minutes", type=float, default=8.5, help="no step starts later (default: %(default)s)")
    options = parser.parse_args(arguments)
    sizes, out, start = SMOKE if options.smoke else GPU, options.out.resolve(), time.monotonic()
    if sizes.setup.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU; --smoke runs on the CPU")
    steps: dict[str, Callable[[], dict[str, Any]]] = {"variants": partial(check_variants, sizes)}
    steps |= {f"n{n}": partial(time_models, sizes, n) for n in sizes.lengths}
    steps |= program_steps(sizes, out)
    results = {}
    for name, run in steps.items():
        path = out / f"{name}.json"
        done = json.loads(path.read_text()) if path.exists() else {}
        if not (done.get("ok") and done["device"] == sizes.setup.device):  # --smoke leaves files in OUT, too
            if time.monotonic() - start > 60 * options.minutes:
                continue
            result = run_step(run)
            with open_atomic(path) as file:
                json.dump({**result, "device": sizes.setup.device, **provenance()}, file, indent=1)
        results[name] = json.loads(path.read_text())
        print(name, "ok" if results[name]["ok"] else "FAILED", results[name]["summary"], flush=True)
    with open_atomic(out / "table.md") as file:
        file.write("| step | | seconds | |\n|---|---|---|---|\n")
        for name in steps:
            row = results.get(name, {"ok": False, "seconds": 0.0, "summary": "not run: rerun the command"})
            summary = " ".join(row["summary"].split()).replace("|", "\\|")
            file.write(f"| {name} | {'ok' if row['ok'] else 'FAILED'} | {row['seconds']:.0f} | {summary} |\n")
    print((out / "table.md").read_text())
    return int(not all(name in results and results[name]["ok"] for name in steps))


def run_step(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a step; that of one that raises has the error, so that the next one runs."""
    start = time.perf_counter()
    try:
        result = run()
    except Exception as error:
        result = {"ok": False, "summary": f"{type(error).__name__}: {error}"}
    return {**result, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    sys.exit(main())
