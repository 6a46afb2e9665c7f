"""Checks for a machine with a GPU: correctness, speed, and fairseq's programs, in an estimated 8 minutes on an H100.

    scripts/gpu_check.sh FOLDER

Every step is a process of its own: an illegal memory access breaks all later GPU calls of its process. After each step
FOLDER/results has results.json, table.md with a line for each step, and log.txt with the ends of their output; nothing
else has to be kept. A rerun repeats only steps that failed or are missing.
"""

import argparse
import copy
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import Tensor

from fairseq_linformer.benchmark.measure import Setup, inference, make_cases, training
from fairseq_linformer.benchmark.memory import DTYPES
from fairseq_linformer.benchmark.rows import Case
from fairseq_linformer.config import PROJECTIONS, SHARING, LinformerConfig
from fairseq_linformer.files import open_atomic
from fairseq_linformer.machine import provenance
from fairseq_linformer.modules import LinformerEncoder

ROOT = Path(__file__).parents[2]
BOUNDS = {"fp32": 1e-5, "fp16": 5e-3, "bf16": 2e-2}
"""Relative errors of the features of a small encoder, and of its gradients."""
DROPOUT_BOUNDS = {"fp32": 0.005, "fp16": 0.02, "bf16": 0.1}
"""Relative errors of a difference quotient of the loss with dropout."""
FORWARD_BAR, STEP_BAR = 1.4, 1.3
"""Goals, which are only reported: time of a forward pass and of a training step with a local window, divided by that
without, from n = 1,024 on."""
STOP_SECONDS = 35
"""Time for a process to end after SIGTERM; torchrun before PyTorch 2.13 waits 30 seconds for its workers."""
LOG_CHARACTERS = 3000
RESULT = "RESULT "
"""What the line with the result of a measurement begins with."""


@dataclass(frozen=True)
class Sizes:
    """What is checked on a machine.

    Attributes:
        dtypes: those to compare with double precision.
        variant_lengths: n of the compared encoders. On an A100 or newer, those in half precision use flash attention,
            and chunks with padding in front; queries are in segments from n = 1,025 on.
        at_once: variants that are compared at the same time.
        setup, k, window: of the encoders that are timed, with and without the local window.
        lengths: n of the timed models, with ``tokens`` tokens per batch.
        n, batch, updates: of fairseq's models and trainings.
        train_flags: flags of fairseq-train by step.
    """

    dtypes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    variant_lengths: tuple[int, ...] = (100, 128, 500, 1100)
    at_once: int = 8
    setup: Setup = Setup("cuda", "bf16", vocabulary=1000, rounds=5, warm_up=2)
    k: int = 128
    window: int = 16
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 16384)
    tokens: int = 32768
    n: int = 512
    batch: int = 64
    updates: int = 25
    train_flags: dict[str, str] = field(
        default_factory=lambda: {
            "fp16": "--fp16",
            "bf16": "--bf16",
            "amp": "--amp",
            "checkpointed": "--fp16 --checkpoint-activations",
            "offloaded": "--fp16 --checkpoint-activations --offload-activations",
            "compiled": "--fp16 --compile",
        }
    )


GPU = Sizes()
SMOKE = Sizes(
    dtypes=("fp32", "bf16"),
    variant_lengths=(40,),
    at_once=2,
    setup=Setup("cpu", "bf16", layers=1, embed_dim=64, vocabulary=1000, rounds=1),
    k=8,
    window=2,
    lengths=(32, 64),
    tokens=64,
    n=32,
    batch=8,
    updates=2,
    train_flags={"fp16": "", "checkpointed": "--checkpoint-activations"},
)


@dataclass(frozen=True)
class Step:
    """A process.

    Attributes:
        words: its command.
        must_log: what the output must contain.
    """

    words: list[str]
    must_log: str = ""


# ---- correctness


def variants(sizes: Sizes) -> dict[str, LinformerConfig]:
    """Small encoders by the name of their step. Those of ``--smoke`` are a few."""
    shape = Setup(layers=2, embed_dim=128, vocabulary=100)
    found = {}
    for sharing, projection, window in itertools.product(SHARING, PROJECTIONS, (0, 16)):
        config = shape.config(Case("linformer", max(sizes.variant_lengths), 32, window))
        found[f"{sharing}, {projection}, W={window}"] = replace(config, sharing=sharing, projection=projection)
    return dict(list(found.items())[:4]) if sizes is SMOKE else found


def check_variant(sizes: Sizes, config: LinformerConfig) -> dict[str, Any]:
    """Features and gradients against double precision on the CPU, and gradients with dropout, in each dtype and length,
    without padding, with padding at the end and in front. The loss of max pooling is not smooth enough for the latter,
    which begins after pooling."""
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    encoder = LinformerEncoder(config).double().eval()
    errors: dict[str, float] = {}
    for n in sizes.variant_lengths:
        tokens = torch.randint(5, 100, (2, n))
        ends, begins = tokens.clone(), tokens.clone()
        ends[1, n - n // 4 :] = begins[1, : n // 4] = config.padding_idx
        weights = torch.randn(*tokens.shape, config.embed_dim)
        for kind, batch in (("", tokens), (" padded", ends), (" padded in front", begins)):
            expected = _run_encoder(copy.deepcopy(encoder), batch, weights)
            for name in sizes.dtypes:
                model = copy.deepcopy(encoder).to(sizes.setup.device, DTYPES[name])
                for what, a, b in zip(("", " gradients"), _run_encoder(model, batch, weights), expected):
                    errors[f"{name} n={n}{kind}{what}"] = float((a - b).norm() / b.norm())
                if config.projection != "max-pool":
                    errors[f"{name} n={n}{kind} dropout"] = dropout_error(model, batch, weights)
    bounds = {name: (DROPOUT_BOUNDS if "dropout" in name else BOUNDS)[name.split()[0]] for name in errors}
    wrong = [f"{name} {error:.1e}" for name, error in errors.items() if not error <= bounds[name]]  # nan is wrong, too
    worst: dict[str, float] = {}
    for name, error in errors.items():
        kind = name.split()[0] + " dropout" * name.endswith("dropout")
        worst[kind] = max(error, worst.get(kind, 0.0))
    summary = ", ".join(wrong) or ", ".join(f"{kind} {error:.1e}" for kind, error in worst.items())
    return {"ok": not wrong, "summary": summary, "errors": errors}


def dropout_error(model: LinformerEncoder, tokens: Tensor, weights: Tensor) -> float:
    """The relative difference between a difference quotient of the loss along its gradient and the gradient's norm
    squared, with dropout of attention weights; of the weights of queries, keys and values. The same seed drops the same
    weights."""
    for layer in model.layers:
        layer.self_attn.dropout = 0.3  # type: ignore[union-attr]
    model.train()
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    parameters = [p for name, p in model.named_parameters() if name.endswith(names)]
    tokens = tokens.to(parameters[0].device)
    weights = weights.to(tokens.device) * tokens.ne(model.config.padding_idx).unsqueeze(-1)

    def run() -> Tensor:
        torch.manual_seed(1)
        return (model(tokens)[0].float() * weights).double()

    products = run()
    gradients = [g.double() for g in torch.autograd.grad(products.sum(), parameters)]
    step = (
        0.2 * products.detach().norm() / sum(g.square().sum() for g in gradients)
    )  # well above the features' rounding
    start = [p.detach().double().clone() for p in parameters]
    change = expected = 0.0
    with torch.no_grad():
        for sign in (1, -1):
            for p, value, g in zip(parameters, start, gradients):
                p.copy_(value + sign * step * g)
                expected += sign * float((g * p).sum())  # p is rounded
            change += sign * float(run().sum())
    return abs(change / expected - 1)


def _run_encoder(encoder: LinformerEncoder, tokens: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Features of real tokens, and the gradients of their weighted sum, converted to double precision on the CPU."""
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
    if n >= 4096:
        bars |= {"forward over sdpa": 1.0, "step over sdpa": 1.0}
    reasons = [
        f"{what} of {row.model} W={row.local_window or 0}: {row.reason}"
        for what, rows in measured.items()
        for row in rows
        if row.reason
    ]
    if reasons:
        return {"ok": False, "summary": "; ".join(reasons), "rows": measured}
    ratios: dict[str, float] = {}
    for what, rows in measured.items():
        faster = {bool(row.local_window): row.value for row in rows if row.metric == "time_ratio"}
        ratios |= {f"{what} over W=0": faster[False] / faster[True], f"{what} over sdpa": 1 / faster[True]}
    summary = ", ".join(f"{name} {r:.2f} (bar {bars.get(name, 'none')})" for name, r in ratios.items())
    return {"ok": True, "summary": f"W={sizes.window}: {summary}", "rows": measured, "ratios": ratios, "bars": bars}


# ---- steps


def measurements(sizes: Sizes) -> dict[str, Callable[[], dict[str, Any]]]:
    """The steps of this file, which ``--step NAME`` runs."""
    found: dict[str, Callable[[], dict[str, Any]]] = {
        name: partial(check_variant, sizes, config) for name, config in variants(sizes).items()
    }
    return found | {f"n={n}": partial(time_models, sizes, n) for n in sizes.lengths}


def runs_folder(sizes: Sizes, folder: Path) -> Path:
    return folder / f"runs-{sizes.setup.device}"


def programs(sizes: Sizes, folder: Path) -> dict[str, Step]:
    """fairseq's programs on the data of ``gpu_check.sh FOLDER --prepare``."""
    text, task = folder / "data" / "text" / "shard0", folder / "data" / "task"
    on_cpu = sizes.setup.device == "cpu"
    runs = runs_folder(sizes, folder)
    checkpoint = runs / "fp16" / "checkpoint_last.pt"
    half = "" if on_cpu else "--fp16"
    plugin = f"--user-dir {ROOT / 'fairseq_linformer'}"
    tiny = "--arch roberta --encoder-layers 1 --encoder-embed-dim 32 --encoder-attention-heads 2"
    roberta = f"{tiny if on_cpu else '--arch roberta_base'} --max-positions {sizes.n}"
    model = f"""
        {plugin} --arch linformer_roberta_{"tiny" if on_cpu else "base"} --projected-dim {sizes.k} --sharing layerwise
        --max-positions {sizes.n} --local-window {sizes.window}
    """
    masked = f"--task masked_lm --criterion masked_lm --tokens-per-sample {sizes.n}"

    def program(name: str, data: Path, options: str) -> list[str]:
        common = f"{data} --batch-size {sizes.batch} --required-batch-size-multiple 1" + " --cpu" * on_cpu
        return [sys.executable, "-m", f"fairseq_cli.{name}", *common.split(), *options.split()]

    def train(options: str, data: Path = text, save: str = "--no-save", updates: int = sizes.updates) -> list[str]:
        optimizer = """
            --optimizer adam --lr 1e-4 --clip-norm 1 --log-format json --log-interval 5 --data-buffer-size 0 --seed 1
            --no-epoch-checkpoints --disable-validation --num-workers 0
        """
        return program("train", data, f"{optimizer} --max-update {updates} {save} {options}")

    steps = {}
    keep = f"--save-dir {runs / 'fp16'}"
    for name, flags in sizes.train_flags.items():
        save = keep if name == "fp16" else "--no-save"
        steps[name] = Step(train(f"{masked} {model} {flags}", save=save))
    resume = train(f"{masked} {model} {half}", save=keep, updates=2 * sizes.updates)
    steps["resume"] = Step(resume, "Loaded checkpoint")
    for name, flag in {"validate": half, **({} if on_cpu else {"validate-bf16": "--bf16"})}.items():
        options = f"--task masked_lm --path {checkpoint} --log-format json --num-workers 0 {plugin} {flag}"
        steps[name] = Step(program("validate", text, options), "| valid |")
    classify = f"""
        --task sentence_prediction --criterion sentence_prediction --num-classes 8 --init-token 0
        --classification-head-name packages --shorten-method truncate {half} --finetune-from-model {checkpoint}
    """
    steps["finetune"] = Step(train(f"{model} {classify}", task))
    overrides = f"""
        --device={sizes.setup.device} --runs={runs} --name=torchrun
        +run={"tiny" if on_cpu else "n512-k128-layerwise"} task.data={text} task.tokens_per_sample={sizes.n}
        optimization.max_update={sizes.updates} dataset.batch_size={sizes.batch} model.projected_dim={sizes.k}
        dataset.disable_validation=true optimization.update_freq=[1]
    """
    variables = [f"PYTHON={sys.executable}", "NPROC_PER_NODE=1", "PET_SHUTDOWN_TIMEOUT=5"]
    torchrun = ["env", *variables, "bash", str(ROOT / "scripts" / "torchrun.sh"), *overrides.split()]
    steps["torchrun"] = Step(torchrun)
    for name, shape in (("roberta", roberta), ("linformer", f"{model} --local-window 0")):
        # One worker masks tokens more slowly than a GPU reads them.
        options = f"{shape} {masked} {half} --num-workers 2"
        steps[f"{name}-speed"] = Step(train(options, updates=2 * sizes.updates))
    return steps


RUNNING: "set[subprocess.Popen[bytes]]" = set()
"""The steps that run now."""


def run_step(step: Step, seconds: float) -> dict[str, Any]:
    """Run a step; after ``seconds``, stop it and its children."""
    start = time.perf_counter()
    with TemporaryFile("w+", errors="replace") as file:
        process = subprocess.Popen(step.words, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True)
        RUNNING.add(process)
        try:
            status = process.wait(seconds)
            reason = f"status {status}" if status else ""
        except subprocess.TimeoutExpired:
            stop(process)
            reason = f"stopped after {seconds:.0f} s"
        RUNNING.remove(process)
        file.seek(0)
        result = read_log(file.read(), step.must_log, reason)
    return {"command": " ".join(step.words), **result, "seconds": time.perf_counter() - start}


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its children. torchrun ends its workers, which are in sessions of their own."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end(number: int, frame: object) -> None:
    """Handle SIGINT and SIGTERM: end the steps that run, which have process groups of their own."""
    for process in list(RUNNING):
        os.killpg(process.pid, signal.SIGTERM)
    os._exit(128 + number)


def read_log(log: str, must_log: str, reason: str) -> dict[str, Any]:
    """The result in the output of a measurement, or what the output of fairseq's programs says.

    Args:
        reason: why the process failed; empty if it did not.
    """
    lines = log.strip().splitlines() or [""]
    results = [line for line in lines if line.startswith(RESULT)]
    if results and not reason:
        return {"log": "", **json.loads(results[-1].removeprefix(RESULT))}
    losses = re.findall(r'"(?:train_|valid_)?loss": "([\d.]+|nan|inf)"', log)
    rates = [float(rate) for rate in re.findall(r'"wps": "([\d.]+)"', log)][1:]  # the first starts the GPU
    if not reason and must_log not in log:
        reason = f"the output lacks {must_log!r}"
    if not reason and not losses:
        reason = "no loss"
    if not reason and (wrong := [loss for loss in losses if loss in ("nan", "inf")]):
        reason = f"loss {wrong[0]}"
    rate = statistics.median(rates) if rates else 0.0
    result = {"ok": not reason, "loss": losses[-1:], "tokens_per_second": rate}
    summary = f"loss {losses[-1] if losses else '-'}, {rate:,.0f} tokens/s"
    return {**result, "summary": f"{reason}: {lines[-1][:200]}" if reason else summary, "log": log[-LOG_CHARACTERS:]}


class Results:
    """What is known of each step, in three files, which are rewritten after each."""

    def __init__(self, folder: Path, names: list[str], device: str):
        self.folder, self.names, self.device = folder, names, device
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "results.json"
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def is_ok(self, name: str) -> bool:
        """Whether a step needs no rerun. ``--smoke`` leaves results, too."""
        result = self.found.get(name, {})
        return bool(result.get("ok")) and result["device"] == self.device

    def add(self, name: str, result: dict[str, Any]) -> None:
        print(name, "ok" if result["ok"] else "FAILED", result["summary"], flush=True)
        self.found[name] = {**result, "device": self.device, **provenance()}
        logs = {name: self.found[name].get("log") for name in self.names if name in self.found}
        texts = {
            "results.json": json.dumps(self.found, indent=1),
            "table.md": self.table(),
            "log.txt": "".join(f"==== {name}\n{log}\n" for name, log in logs.items() if log),
        }
        for file_name, text in texts.items():
            with open_atomic(self.folder / file_name) as file:
                file.write(text)

    def table(self) -> str:
        lines = ["| step | | seconds | |", "|---|---|---|---|"]
        missing = {"ok": False, "seconds": 0.0, "summary": "not run: rerun the command"}
        for name in self.names:
            result = self.found.get(name, missing)
            summary = " ".join(result["summary"].split()).replace("|", "\\|")
            lines.append(f"| {name} | {'ok' if result['ok'] else 'FAILED'} | {result['seconds']:.0f} | {summary} |")
        return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="with what --prepare has written")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU, which show that the steps run")
    parser.add_argument("--minutes", type=float, default=9.0, help="all steps are stopped then (default: %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=180.0, help="a step is stopped then, and has failed")
    parser.add_argument("--results", type=Path, required=True, help="folder for the three files")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sizes, folder = SMOKE if options.smoke else GPU, options.folder.resolve()
    if sizes.setup.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU; --smoke runs on the CPU")
    if options.step:
        print(RESULT + json.dumps(measurements(sizes)[options.step]()))
        return 0
    flags = ["--smoke"] * options.smoke
    own = [sys.executable, "-m", "tests.gpu.check", str(folder), "--results", str(options.results), *flags, "--step"]
    compared = list(variants(sizes))
    steps = {name: Step([*own, name]) for name in measurements(sizes)} | programs(sizes, folder)
    results = Results(options.results, list(steps), sizes.setup.device)
    deadline = time.monotonic() + 60 * options.minutes - STOP_SECONDS

    def run(name: str) -> dict[str, Any] | None:
        left = deadline - time.monotonic()
        return run_step(steps[name], min(left, options.step_seconds)) if left > 0 else None

    missing = [name for name in steps if not results.is_ok(name)]
    if "fp16" in missing:  # else it would go on from the end of an earlier call's run
        shutil.rmtree(runs_folder(sizes, folder), ignore_errors=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with ThreadPoolExecutor(sizes.at_once) as pool:  # correctness does not depend on what else runs
        together = [name for name in missing if name in compared]
        for name, result in zip(together, pool.map(run, together)):
            if result:
                results.add(name, result)
    for name in missing:
        if name not in compared and (result := run(name)):
            results.add(name, result)
    print(results.table())
    return int(not all(map(results.is_ok, steps)))


if __name__ == "__main__":
    sys.exit(main())
