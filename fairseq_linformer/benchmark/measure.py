"""Time and memory of forward passes and training steps, with the models side by side.

B sentences of n random tokens without padding; pretraining predicts m masked tokens of each, finetuning a class
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from ..config import LinformerConfig
from ..errors import first_line
from ..files import read_json, write_json
from ..machine import DIRTY, provenance
from .flops import AssumedValues, count_flops
from .gpus import data_sheet_peak
from .memory import DTYPES, peak_bytes, step_peak_bytes
from .models import BUILDERS, CLASSIFY, FEATURES, MASKED_LM, NUM_CLASSES
from .rows import HEAD_DIM, LINFORMERS, NO_MEMORY, OURS, Case, Row, byte_rows, compare_times, lost_rows, repeated
from .timing import choose_clock, is_out_of_memory, limit_memory, time_interleaved

MASK_PROB = 0.15
MAX_FINETUNING_BATCH = 32
"""The larger of RoBERTa's batch sizes."""


@dataclass(frozen=True)
class Setup:
    """Device, precision and size of the compared models, and the rounds in which they take turns."""

    device: str = "cpu"
    dtype: str = "fp32"
    layers: int = 12
    embed_dim: int = 768
    vocabulary: int = 50265
    rounds: int = 3
    warm_up: int = 1

    def config(self, case: Case) -> LinformerConfig:
        """A model with layerwise sharing, as in section 5.3, and heads of width 64."""
        return LinformerConfig(
            self.vocabulary,
            case.positions or case.n,
            case.k or 1,
            "layerwise",
            layers=self.layers,
            embed_dim=self.embed_dim,
            ffn_embed_dim=4 * self.embed_dim,
            attention_heads=self.embed_dim // HEAD_DIM,
            local_window=case.local_window,
        )

    def build(self, case: Case, task: str) -> nn.Module:
        """Build a model on the device and in the precision. A CPU would take seconds to initialize it for a GPU."""
        with torch.device(self.device):
            module = BUILDERS[case.model](self.config(case), task)
        return module.to(device=self.device, dtype=DTYPES[self.dtype])

    def tokens(self, batch: int, n: int) -> Tensor:
        """(B, n) random token IDs without special symbols."""
        return torch.randint(5, self.vocabulary, (batch, n), device=self.device)

    def step_inputs(self, case: Case, tokens: int) -> list[Tensor]:
        """The inputs of a training step: tokens with masked positions, in order, and their tokens; or with classes."""
        n = case.n
        if task_of(case) == CLASSIFY:
            x = self.tokens(min(MAX_FINETUNING_BATCH, max(1, tokens // n)), n)
            return [x, torch.randint(0, NUM_CLASSES, (len(x),), device=self.device)]
        x = self.tokens(max(1, tokens // n), n)
        positions = torch.rand(x.shape, device=self.device).argsort(1)[:, : num_masked(n)].sort(1).values
        return [x, positions, x.gather(1, positions)]

    def time(self, runs: Mapping[Case, Callable[[], object]]) -> dict[Case, list[float]]:
        """Seconds of each run in each round."""
        torch.set_float32_matmul_precision("highest")  # without TF32, which some containers turn on
        return time_interleaved(runs, self.rounds, self.warm_up, choose_clock(self.device), self.device)


def task_of(case: Case) -> str:
    """What a case is trained for: if its positions are set, for classes."""
    return CLASSIFY if case.positions else MASKED_LM


def num_masked(n: int) -> int:
    """m, the masked tokens of a sentence."""
    return max(1, round(MASK_PROB * n))


def make_cases(
    models: Sequence[str], n: int, ks: Sequence[int], windows: Sequence[int] = (0,), positions: int | None = None
) -> list[Case]:
    """The models at n, those with a k once for each k below it and, if they are this project's, for each window."""
    cases = []
    for model in models:
        if model in LINFORMERS:
            reaches = windows if model in OURS else (0,)
            cases += [Case(model, n, k, window, positions) for k in ks if k < (positions or n) for window in reaches]
        else:
            cases.append(Case(model, n, positions=positions))
    return cases


def inference(cases: Sequence[Case], tokens: int, setup: Setup, memory: bool = False) -> list[Row]:
    """Forward passes of batches of ``tokens`` tokens (but one sentence at least), interleaved.

    Args:
        memory: also count the peak bytes of each pass.
    """
    batches = {case.n: setup.tokens(max(1, tokens // case.n), case.n) for case in cases}
    modules: dict[Case, nn.Module] = {}

    def build(case: Case) -> Callable[[], object]:
        modules[case] = setup.build(case, FEATURES).eval()
        with torch.inference_mode():
            modules[case](batches[case.n][:1])
        return torch.inference_mode()(partial(modules[case], batches[case.n]))

    with limit_memory(setup.device):
        runs, lost = _build_each(cases, build)
        seconds = setup.time(runs)
        with torch.no_grad():
            peaks = {
                case: peak_bytes(
                    partial(modules[case], batches[case.n]), modules[case], [batches[case.n]], setup.device
                )
                for case in (seconds if memory else ())
            }
    times = {case: [1e6 * each / batches[case.n].numel() for each in rounds] for case, rounds in seconds.items()}
    rows = [
        Row(metric="microseconds_per_token", unit="microseconds per token", **case.keys, **repeated(rounds))
        for case, rounds in times.items()
    ]
    return [*rows, *compare_times(times), *byte_rows(peaks), *lost_rows(cases, times, lost)]


def training(cases: Sequence[Case], tokens: int, setup: Setup) -> list[Row]:
    """Steps (forward, backward, AdamW) of batches of about ``tokens`` tokens, interleaved; then the peak bytes of a
    forward and backward pass of each model. All cases have the same positions."""
    inputs = {case: setup.step_inputs(case, tokens) for case in cases}

    def build_model(case: Case) -> nn.Module:
        return setup.build(case, task_of(case)).train()

    with limit_memory(setup.device):
        steps, lost = _build_each(cases, lambda case: build_step(build_model(case), inputs[case]))
        seconds = setup.time(steps)
        del steps  # with the memory of their optimizers
        peaks = {case: step_peak_bytes(build_model(case), inputs[case], setup.device) for case in seconds}
    rows = []
    peak = data_sheet_peak(torch.cuda.get_device_name(), setup.dtype) if setup.device != "cpu" else None
    for case, rounds in seconds.items():
        rates = repeated([inputs[case][0].numel() / each for each in rounds])
        rows.append(Row(metric="tokens_per_second", unit="tokens per second", **case.keys, **rates))
        if peak:
            operations = step_operations(case, tokens, setup)
            used = repeated([operations / (each * peak) for each in rounds])
            rows.append(Row(metric="utilization", unit="share of the peak", **case.keys, **used))
    rows += [*compare_times(seconds), *byte_rows(peaks), *lost_rows(cases, seconds, lost)]
    phase = "finetuning" if cases[0].positions else "pretraining"
    return [Row(row, phase=phase) for row in rows]


def build_step(module: nn.Module, inputs: Sequence[Tensor]) -> Callable[[], None]:
    """A training step of a module that returns its loss."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        module(*inputs).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def step_operations(case: Case, tokens: int, setup: Setup) -> int:
    """Operations of the matrix products that a training step needs, without recomputation (Chowdhery et al. 2022,
    "PaLM", appendix B), counted on PyTorch's meta device. Every Linformer counts as this project's."""
    counted = "roberta" if case.model == "roberta" else "linformer" if case.k else "transformer-sdpa"
    setup = replace(setup, device="meta", dtype="fp32")
    with AssumedValues(num_masked(case.n)):
        module = setup.build(case._replace(model=counted), task_of(case)).train()
        inputs = setup.step_inputs(case, tokens)
        return count_flops(lambda: module(*inputs).backward())


def _build_each(
    cases: Sequence[Case], build: Callable[[Case], Callable[[], object]]
) -> tuple[dict[Case, Callable[[], object]], dict[Case, str]]:
    """The run of each case, and why others have none: no memory, or an unsupported length or precision."""
    runs, lost = {}, {}
    for case in cases:
        try:
            runs[case] = build(case)
        except (RuntimeError, MemoryError, ValueError) as error:
            lost[case] = NO_MEMORY if is_out_of_memory(error) else first_line(error)[:200]
    return runs, lost


# Files


def measure_once(path: Path | None, measurement: "partial[list[Row]]") -> tuple[list[Row], float]:
    """The rows of a measurement, a partial call of a function of this package, and its seconds, from a file if it has
    one with the same arguments, commit and machine; otherwise it is run and added to the file.

    So a benchmark that takes hours can be killed at any time, and rerun to resume.
    """
    arguments = {"function": measurement.func.__name__, **measurement.keywords, "threads": torch.get_num_threads()}
    settings = json.loads(json.dumps(arguments, default=vars))
    now = provenance()
    found = read_json(path) if path and path.exists() else []
    if not isinstance(found, list) or any("settings" not in each for each in found):
        raise ValueError(f"{path} is not a file of measurements")
    known = {"settings": settings, **{name: now[name] for name in ("commit", "hardware", "versions")}}
    for each in found:
        if not now["commit"].endswith(DIRTY) and all(each[name] == value for name, value in known.items()):
            return [Row(row) for row in each["rows"]], each["seconds"]
    start = time.monotonic()
    rows = measurement()
    seconds = round(time.monotonic() - start, 3)
    lengths = dict.fromkeys(f"n = {case.n:,}" for case in measurement.keywords["cases"])
    print(f"{measurement.func.__name__}, {', '.join(lengths)}: {seconds:.0f} s", file=sys.stderr, flush=True)
    if path:
        write_json(path, [*found, {"settings": settings, **now, "seconds": seconds, "rows": rows}])
    return rows, seconds
