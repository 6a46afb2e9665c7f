"""Checks for a machine with a GPU: correctness, speed, and fairseq's programs, in about 7 minutes on an H100.

    scripts/gpu_check.sh OUT

Each step writes OUT/STEP.json; a rerun repeats only steps that failed or are missing. OUT/table.md has a line for each.
"""

import argparse
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import PROJECTIONS, SHARING, LinformerConfig
from ..files import open_atomic
from ..machine import provenance
from ..modules import LinformerEncoder
from .encoders import build_transformer
from .timing import time_interleaved

ROOT = Path(__file__).parent.parent.parent
BOUNDS = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
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
        layers, width, heads: of the encoder that is timed.
        k, window: of the Linformer that is timed, with and without the local window.
        lengths: n; ``tokens`` are read at a time.
        rounds: measured repetitions.
        arch, n, batch: of fairseq's models, and the sentences of an update.
        updates: of each training.
        precisions: flags of fairseq-train by step.
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    layers: int
    width: int
    heads: int
    k: int
    window: int
    lengths: tuple[int, ...]
    tokens: int
    rounds: int
    arch: str
    n: int
    batch: int
    updates: int
    precisions: dict[str, str]


PRECISIONS = {
    "fp16": "--fp16",
    "bf16": "--bf16",
    "amp": "--amp",
    "checkpointed": "--fp16 --checkpoint-activations",
    "offloaded": "--fp16 --checkpoint-activations --offload-activations",
    "compiled": "--fp16 --compile",
}
HALF = (torch.float16, torch.bfloat16)
GPU = Sizes(
    device="cuda",
    dtypes=(torch.float32, *HALF),
    layers=12,
    width=768,
    heads=12,
    k=128,
    window=16,
    lengths=(512, 1024, 2048, 4096, 16384),
    tokens=32768,
    rounds=5,
    arch="base",
    n=512,
    batch=64,
    updates=25,
    precisions=PRECISIONS,
)
SMOKE = Sizes(
    device="cpu",
    dtypes=(torch.float32, torch.bfloat16),
    layers=1,
    width=32,
    heads=2,
    k=8,
    window=2,
    lengths=(32, 64),
    tokens=64,
    rounds=1,
    arch="tiny",
    n=32,
    batch=8,
    updates=2,
    precisions={"fp16": "", "checkpointed": "--checkpoint-activations"},
)


# ---- correctness


def check_variants(sizes: Sizes) -> dict[str, Any]:
    """Features and gradients of every variant against double precision on the CPU, in each dtype, with padding and
    without; a sentence alone against its padded batch, and some positions against all, in single precision."""
    rows = [
        check_variant(
            sizes,
            LinformerConfig(
                vocab_size=100,
                max_positions=128,
                projected_dim=32,
                sharing=sharing,
                projection=projection,
                layers=2,
                embed_dim=64,
                ffn_embed_dim=128,
                attention_heads=2,
                local_window=window,
                dropout=0,
                attention_dropout=0,
            ),
        )
        for sharing, projection, window in itertools.product(SHARING, PROJECTIONS, (0, 16))
    ]
    names = [name for name in rows[0] if name != "variant"]
    worst = {name: max((row[name] for row in rows), key=lambda error: (math.isnan(error), error)) for name in names}
    bounds = {str(dtype).removeprefix("torch."): bound for dtype, bound in BOUNDS.items()}
    ok = all(error <= bounds.get(name.split()[0], BOUNDS[torch.float32]) for name, error in worst.items())
    return {"ok": ok, "summary": ", ".join(f"{name} {error:.1e}" for name, error in worst.items()), "rows": rows}


def check_variant(sizes: Sizes, config: LinformerConfig) -> dict[str, Any]:
    torch.manual_seed(0)
    encoder = LinformerEncoder(config).eval()
    tokens = torch.randint(5, 100, (2, config.max_positions))
    tokens[1, 90:] = config.padding_idx
    is_real = tokens.ne(config.padding_idx)
    full = tokens.masked_fill(~is_real, 5)
    weights = torch.randn(*tokens.shape, config.embed_dim, dtype=torch.float64)

    def run(dtype: torch.dtype, device: str, tokens: Tensor = tokens) -> tuple[Tensor, Tensor]:
        model = LinformerEncoder(config).to(device, dtype).eval()
        model.load_state_dict(encoder.state_dict())
        features = model(tokens.to(device))[0] * tokens.ne(config.padding_idx).unsqueeze(-1).to(device)
        (features * weights[: len(tokens), : tokens.size(1)].to(device, dtype)).sum().backward()
        gradients = [p.grad.flatten().double().cpu() for p in model.parameters() if p.grad is not None]
        return features.detach().double().cpu(), torch.cat(gradients)

    expected, expected_full = run(torch.float64, "cpu"), run(torch.float64, "cpu", full)
    row: dict[str, Any] = {"variant": f"{config.sharing}, {config.projection}, W = {config.local_window}"}
    for dtype in sizes.dtypes:
        name = str(dtype).removeprefix("torch.")
        for batch, right, kind in ((full, expected_full, name), (tokens, expected, f"{name} padded")):
            features, gradients = run(dtype, sizes.device, batch)
            row[kind] = relative_error(features, right[0])
            row[f"{kind} gradients"] = relative_error(gradients, right[1])
    alone = run(torch.float32, sizes.device, tokens[1:, :90])[0]
    row["alone"] = relative_error(alone[0], expected[0][1, :90])
    model = encoder.to(sizes.device)
    positions = torch.tensor([[0, 7, 100], [0, 7, 80]], device=sizes.device)
    with torch.no_grad():
        some = model(tokens.to(sizes.device), positions)[0].double().cpu()
    index = positions.cpu().unsqueeze(-1).expand(-1, -1, config.embed_dim)
    row["positions"] = relative_error(some, expected[0].gather(1, index))
    return row


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


# ---- speed


def time_models(sizes: Sizes, n: int) -> dict[str, Any]:
    """Milliseconds of a forward pass and of a training step: full attention, and the Linformer without and with a
    local window, interleaved."""
    dtype = torch.bfloat16
    common = dict(vocab_size=1000, max_positions=n, projected_dim=sizes.k, layers=sizes.layers, embed_dim=sizes.width)
    common |= dict(ffn_embed_dim=4 * sizes.width, attention_heads=sizes.heads)
    build: Any = LinformerConfig
    with torch.device(sizes.device):
        models = {
            "sdpa": build_transformer(build(**common), "sdpa"),
            "W=0": LinformerEncoder(build(**common)),
            f"W={sizes.window}": LinformerEncoder(build(**common, local_window=sizes.window)),
        }
        tokens = torch.randint(5, 1000, (max(1, sizes.tokens // n), n))
    runs = {name: model.to(sizes.device, dtype) for name, model in models.items()}
    times = {}
    for what, call in (("forward", forward), ("step", step)):
        for model in runs.values():
            model.train(what == "step")
        calls = {name: partial(call, model, tokens) for name, model in runs.items()}
        seconds = time_interleaved(calls, sizes.rounds, 2, device=sizes.device)
        times[what] = {name: 1000 * statistics.median(values) for name, values in seconds.items()}
    window = f"W={sizes.window}"
    ratios = {
        f"{what}: {window} / {other}": times[what][window] / times[what][other]
        for what in times
        for other in ("W=0", "sdpa")
    }
    bars = {f"forward: {window} / W=0": FORWARD_BAR, f"step: {window} / W=0": STEP_BAR} if n >= 1024 else {}
    if n >= 2048:
        bars |= {f"{what}: {window} / sdpa": 1.0 for what in times}
    summary = ", ".join(f"{name} {r:.2f} (bar {bars.get(name, 'none')})" for name, r in ratios.items())
    return {"ok": True, "summary": summary, "milliseconds": times, "ratios": ratios, "bars": bars}


def forward(model: LinformerEncoder, tokens: Tensor) -> None:
    with torch.no_grad():
        model(tokens, padded=False)


def step(model: LinformerEncoder, tokens: Tensor) -> None:
    model.zero_grad()
    model(tokens, padded=False)[0].float().square().mean().backward()


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
    runs = out / f"runs-{sizes.device}"
    python, checkpoint = sys.executable, runs / "fp16" / "checkpoint_last.pt"
    plugin = ["--user-dir", str(ROOT / "fairseq_linformer")]
    cpu = ["--cpu"] if sizes.device == "cpu" else []
    batch = ["--batch-size", str(sizes.batch), "--required-batch-size-multiple", "1", "--num-workers", "0"]
    optimizer = (
        "--optimizer adam --lr 1e-4 --clip-norm 1 --log-format json --log-interval 5 --data-buffer-size 0 --seed 1"
    )
    model = ["--arch", f"linformer_roberta_{sizes.arch}", "--projected-dim", str(sizes.k), "--sharing", "layerwise"]
    model += ["--max-positions", str(sizes.n), "--local-window", str(sizes.window)]
    masked = ["--task", "masked_lm", "--criterion", "masked_lm", "--tokens-per-sample", str(sizes.n)]

    def train(name: str, data: Path, *words: str, updates: int = sizes.updates, must_log: str = "") -> dict[str, Any]:
        fixed = [*batch, *optimizer.split(), *cpu, "--save-dir", str(runs / name), "--no-epoch-checkpoints"]
        program = [python, "-m", "fairseq_cli.train", str(data), "--max-update", str(updates), "--disable-validation"]
        return run_program([*program, *fixed, *words], must_log)

    def validate(*words: str) -> dict[str, Any]:
        program = [python, "-m", "fairseq_cli.validate", str(text), *plugin, "--task", "masked_lm"]
        program += ["--path", str(checkpoint), "--log-format", "json"]
        return run_program([*program, *batch, *cpu, *words], "| valid |")

    half = [] if sizes.device == "cpu" else ["--fp16"]
    pretrain = [*plugin, *masked, *model]
    steps: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, flags in sizes.precisions.items():
        unsaved = [] if name == "fp16" else ["--no-save"]
        steps[name] = partial(train, name, text, *pretrain, *flags.split(), *unsaved)
    twice = 2 * sizes.updates
    steps["resume"] = partial(train, "fp16", text, *pretrain, *half, updates=twice, must_log="Loaded checkpoint")
    steps["validate"] = partial(validate, *half)
    if sizes.device != "cpu":
        steps["validate-bf16"] = partial(validate, "--bf16")
    classify = "--task sentence_prediction --criterion sentence_prediction --num-classes 8 --init-token 0"
    classify += f" --classification-head-name packages --shorten-method truncate --finetune-from-model {checkpoint}"
    steps["finetune"] = partial(train, "finetune", task, *plugin, *model, *classify.split(), *half, "--no-save")
    launch = dict(PYTHON=python, NPROC_PER_NODE="1")
    overrides = [f"task.data={text}", f"task.tokens_per_sample={sizes.n}"]
    overrides += [f"optimization.max_update={sizes.updates}", f"dataset.batch_size={sizes.batch}"]
    overrides += [f"model.projected_dim={sizes.k}", "dataset.disable_validation=true", "optimization.update_freq=[1]"]
    run = "n512-k128-layerwise" if sizes.arch == "base" else "tiny"
    options = [f"--device={sizes.device}", f"--runs={runs}", "--name=torchrun", f"+run={run}"]
    words = ["bash", str(ROOT / "scripts" / "torchrun.sh"), *options, *overrides]
    steps["torchrun"] = partial(run_program, words, "", launch)
    roberta = ["--arch", "roberta_base" if sizes.arch == "base" else "roberta", "--max-positions", str(sizes.n)]
    if sizes.arch != "base":
        roberta += "--encoder-layers 1 --encoder-embed-dim 32 --encoder-attention-heads 2".split()
    fast = [*half, "--no-save", "--num-workers", "2"]  # one process masks fewer tokens than a GPU reads
    steps["roberta-speed"] = partial(train, "roberta", text, *masked, *roberta, *fast, updates=twice)
    plain = [*pretrain, "--local-window", "0"]
    steps["linformer-speed"] = partial(train, "linformer", text, *plain, *fast, updates=twice)
    return steps


# ---- all steps


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="output folder, with the data of --prepare")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU, which show that the steps run")
    parser.add_argument("--minutes", type=float, default=8.5, help="no step starts later (default: %(default)s)")
    options = parser.parse_args(arguments)
    sizes, out, start = SMOKE if options.smoke else GPU, options.out.resolve(), time.monotonic()
    if sizes.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU; --smoke runs on the CPU")
    steps: dict[str, Callable[[], dict[str, Any]]] = {"variants": partial(check_variants, sizes)}
    steps |= {f"n{n}": partial(time_models, sizes, n) for n in sizes.lengths}
    steps |= program_steps(sizes, out)
    results = {}
    for name, run in steps.items():
        path = out / f"{name}.json"
        done = json.loads(path.read_text()) if path.exists() else {}
        if not (done.get("ok") and done["device"] == sizes.device):  # --smoke leaves files in OUT, too
            if time.monotonic() - start > 60 * options.minutes:
                continue
            result = run_step(run)
            with open_atomic(path) as file:
                json.dump({**result, "device": sizes.device, **provenance()}, file, indent=1)
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
