"""A run of a plan: its configuration, its start, its training.

    RUNS/SCALE/NAME/seedS/              a run folder, as launching/run_folder.py has it
    RUNS/SCALE/NAME/seedS/.origin.json  what it was made of: the plan of it and of all that it starts from, the text, the checkpoint
    RUNS/SCALE/starts/NAME/seedS.pt     what a run starts from, where that had to be grown or converted
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

from ..checkpoints.files import read_checkpoint, write_checkpoint
from ..checkpoints.resize import resize
from ..checkpoints.roberta import from_roberta
from ..files import atomic, read_json
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training import PATH_OPTIONS, Training, quoted
from .scales import VALID_BATCHES, Scale
from .text import digest, shards_of, sums
from .trained import Trained, check_trained
from .training_plan import Model, Run

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pretrain" / "base.yaml"
LOG, ORIGIN = "reproduce.txt", ".origin.json"


def training(run: Run, scale: Scale, runs: Path, text) -> Training:
    """What ``launching`` trains."""
    data = ":".join(str(path.resolve()) for path in shards_of(text))
    start = "null" if run.start is None else quoted(str(start_of(run, runs)))
    schedule = ["lr_scheduler._name=polynomial_decay"] if run.decays else ["lr_scheduler._name=fixed"]
    overrides = (
        f"common.user_dir={quoted(str(CONFIG.parents[2] / 'fairseq_linformer'))}", f"common.seed={run.seed}", f"common.log_interval={min(100, scale.validate)}",
        "common.fp16=false", f"common.bf16={str(scale.precision == 'bf16').lower()}",
        f"task.data={quoted(data)}", f"task.tokens_per_sample={run.model.n}", f"checkpoint.finetune_from_model={start}",
        f"checkpoint.save_interval_updates={scale.validate}",
        f"dataset.batch_size={scale.tokens // run.model.n}", f"dataset.batch_size_valid={2 * scale.tokens // run.model.n}",
        f"dataset.max_valid_steps={VALID_BATCHES}",
        "dataset.required_batch_size_multiple=1", "dataset.num_workers=0", "dataset.data_buffer_size=0",
        *schedule, f"lr_scheduler.warmup_updates={scale.warmup if run.start is None else min(scale.warmup, run.updates // 10)}",
        f"optimization.lr=[{scale.lr!r}]", f"optimization.max_update={run.updates}", "optimization.update_freq=[1]", "optimization.clip_norm=1.0",
        *_model(run.model, scale),
    )  # fmt: skip
    return Training(str(CONFIG), overrides, 1, scale.device, str(runs.absolute()), run.name)


def _model(model: Model, scale: Scale) -> List[str]:
    options: Dict[str, Any] = {
        "encoder_layers": scale.layers, "encoder_embed_dim": scale.width, "encoder_ffn_embed_dim": 4 * scale.width,
        "encoder_attention_heads": scale.heads, "encoder_normalize_before": "true", "dropout": 0.0, "attention_dropout": 0.0,
    }  # fmt: skip
    if model.k is None:
        options |= {"_name": "roberta", "projected_dim": "null", "sharing": "null"}
    else:
        options |= {"_name": "linformer_roberta", "projected_dim": model.k, "sharing": model.sharing, "projection": model.projection}
        options |= {} if model.start is None else {"projection_init": model.start}
        options |= {} if model.rate is None else {"projection_lr_scale": model.rate}
    return [f"++model.{key}={value}" for key, value in options.items()]


def start_of(run: Run, runs: Path) -> Path:
    """The checkpoint that it starts from, which need not be there yet."""
    if run.model == run.start.model:
        return _last(run.start, runs.absolute())
    return runs.absolute() / "starts" / f"{run.name}.pt"


def make_start(run: Run, runs: Path) -> None:
    """Grow or convert the last checkpoint of what it starts from; not again once it has begun."""
    path = start_of(run, runs)
    if run.model == run.start.model or (path.exists() and (runs / run.name / run_folder.CONFIG).exists()):
        return
    last = read_checkpoint(_last(run.start, runs))
    if run.made.startswith("grown"):
        new = resize(last, run.model.n)
    else:
        torch.manual_seed(run.seed)  # of what starts at random
        m = run.model
        new = from_roberta(last, projected_dim=str(m.k), sharing=m.sharing, projection=m.projection, projection_init=m.start)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of a run that was moved away, or stopped before it began
    write_checkpoint(new, path)


def _last(run: Run, runs: Path) -> Path:
    return runs / run.name / run_folder.CHECKPOINTS / LAST


def described(run: Run) -> Dict[str, Any]:
    """How a model came about, of any seed: itself, and what it started from."""
    model = asdict(run.model) if run.model.k else {"n": run.model.n}
    told = {"model": model, "made": run.made, "updates": run.updates, "rate": "to zero" if run.decays else "constant"}
    return {**told, "from": described(run.start)} if run.start else told


def origin(run: Run, runs: Path, text) -> Dict[str, Any]:
    """What a run is made of, but for the configuration that its folder has."""
    start = None if run.start is None else digest(_last(run.start, runs))
    return {"plan": described(run), "text": sums(text), "start": start}


def check_origin(run: Run, runs: Path, text) -> None:
    """
    Raises:
        ValueError: the run is begun, and was made of something else.
    """
    path = runs / run.name / ORIGIN
    if not (runs / run.name / run_folder.CONFIG).exists():
        return
    try:
        there = read_json(path)
        there["plan"], there["text"], there["start"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path.parent} does not say what it was made of; move it away, and the same command trains it anew") from None
    if run.start is not None and not is_done(run.start, runs):
        raise ValueError(f"{path.parent} was trained, and {runs / run.start.name} that it starts from is not; move it away, and the same command trains it anew")
    words = {"plan": "plan: models or updates differ", "text": "text", "start": "start"}
    here = json.loads(json.dumps(origin(run, runs, text)))
    for key, word in words.items():
        if there[key] != here[key]:
            raise ValueError(f"{path.parent} is of another {word}; move it away, or give another --runs")


def is_done(run: Run, runs: Path) -> bool:
    return (runs / run.name / run_folder.DONE).exists()


def check(run: Run, scale: Scale, runs: Path, text) -> None:
    """Before anything is trained: a folder of another configuration is refused, and one that was made of something else.

    Raises:
        ValueError: it is; or ``text`` is no data.
    """
    if run.start is None or start_of(run, runs).exists():
        _check_configuration(training(run, scale, runs, text))
    check_origin(run, runs, text)
    if is_done(run, runs):
        check_trained(trained(run, runs), text)


def _check_configuration(job: Training) -> None:
    """
    Raises:
        ValueError: the folder is of another one.
    """
    done = (job.folder / run_folder.DONE).exists()
    # What lies there may have been moved since: the origin has the sums of the text, and of the checkpoint that the start was made of.
    run_folder.is_new(job, PATH_OPTIONS if done else (), "move it away" + ", put back what was moved" * (not done) + ", or give another --runs")


def train(run: Run, scale: Scale, runs: Path, text, until: Optional[float]) -> bool:
    """Train on from where it is.

    Args:
        until: the time, of ``time.monotonic``, at which it is told to stop.

    Returns:
        whether it is trained to its end.

    Raises:
        ValueError: the folder is of another configuration, or training failed, and where its log is.
        KeyboardInterrupt: this process was told to stop; the same call goes on.
    """
    if run.start is not None:
        make_start(run, runs)
    job = training(run, scale, runs, text)
    _check_configuration(job)
    if (job.folder / run_folder.DONE).exists():
        return True
    if not (job.folder / run_folder.CONFIG).exists():  # what lies there is of a run that was stopped before it began, perhaps on another text
        with atomic(job.folder / ORIGIN) as file:
            json.dump(origin(run, runs, text), file, indent=1)
    return local.train(job, LOG, run.updates, run.name, until)


def trained(run: Run, runs: Path) -> Trained:
    """What to read it back from."""
    return Trained(runs / run.name, run.model.n, run.updates, None if run.start is None else start_of(run, runs))
