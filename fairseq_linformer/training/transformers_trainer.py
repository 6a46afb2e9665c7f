"""Finetuning of other models, such as BERT or DistilBERT, on the same data with ``transformers.Trainer``.

The recipe is the same, except that the Trainer applies no weight decay to biases and norms.

    RUN/recipe.json       recipe, model and data; a run resumes only with the same ones
    RUN/trainer/          the Trainer's checkpoints, one per epoch
    RUN/provenance.json   shape and revision of the model, seconds of training
    RUN/attempts.jsonl    as in training/run_folder.py
    RUN/best/             the best model (the last one, if there is no development set) with its tokenizer
    RUN/result.json       as in single_run.py
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from scipy.stats import pearsonr

from .. import huggingface  # noqa: F401  registers the Linformer with AutoModel
from ..checkpoints.transformers_loading import (
    check_loaded_weights,
    load_from_transformers,
    load_weights_from_transformers,
)
from ..errors import silence_transformers
from ..evaluation.encoded_rows import read_task_examples
from ..evaluation.example_files import Example
from ..evaluation.transformers_classifier import TransformersClassifier, resolve_max_positions
from ..files import read_json, sha256, write_json
from ..task_data.tasks import Task
from ..task_data.truncation import MAX_POSITIONS
from .arguments import check_run_name
from .progress import TrainingProgress
from .recipe import Recipe, run_names
from .run_folder import lock_folder, record_attempt, training_provenance
from .single_run import RESULT, evaluate_splits, read_result

_CHECKSUMS = {"weights": "model", "rows": "source"}
"""Fields of ``RECIPE`` with a checksum, and the fields with the path that it belongs to."""
BEST, RECIPE, TRAINER, PROVENANCE, SECONDS = "best", "recipe.json", "trainer", "provenance.json", "seconds.json"


def finetune_transformers(
    task: Task,
    name: str,
    recipes: Sequence[Recipe],
    runs: str,
    run_name: str,
    source: str,
    device: str,
    max_positions: int | None = None,
) -> list[dict[str, Any]]:
    """Train and evaluate the unfinished runs, and return the results of all.

    Args:
        name: name of a model on the hub, or a folder.
        source: source of the task, as for ``open_source``.
        max_positions: n, to which rows are truncated; None for 512, or the model's n if that is less.

    Raises:
        ValueError: model or task cannot be loaded, a folder has another recipe, model or data, an untrained run
            would not have exactly one GPU, or loss or gradients are non-finite.
    """
    check_run_name(run_name, runs)
    folders = [Path(runs, folder) for folder in run_names(run_name, recipes)]
    are_trained = all((folder / RESULT).exists() or (folder / BEST).exists() for folder in folders)
    if not are_trained and device == "cuda" and torch.cuda.device_count() != 1:
        # With several GPUs the Trainer would train a batch on each.
        raise ValueError(
            f"--device cuda needs exactly one visible GPU, got {torch.cuda.device_count()}; set CUDA_VISIBLE_DEVICES "
            "or use --device cpu"
        )
    silence_transformers()
    if not are_trained:
        _load(task, name)  # before the task, which may be downloaded
    examples = _read_examples(task, source) if Path(source).exists() else {}
    data: dict[str, Any] = {"model": name, "task": task.name, "source": source, "max_positions": max_positions}
    data |= {"weights": _checksum_weights(name), "rows": _checksum_rows(examples)}
    for recipe, folder in zip(recipes, folders):
        _check_recipe(folder, {**data, **asdict(recipe)})
    results = []
    for recipe, folder in zip(recipes, folders):
        if (folder / RESULT).exists():
            results.append(read_result(folder / RESULT))
            continue
        examples = examples or _read_examples(task, source)
        write_json(folder / RECIPE, {**data, **asdict(recipe)})
        if not (folder / BEST).exists():
            with lock_folder(folder):
                record_attempt(folder, processes=1)
                _train(task, name, recipe, folder, examples, device, max_positions)
        provenance = read_json(folder / PROVENANCE)
        seconds = provenance.pop("seconds")
        scoring_device = device if torch.cuda.is_available() else "cpu"
        classifier = TransformersClassifier(str(folder / BEST), scoring_device, provenance["max_positions"])
        rows = ", ".join(f"{len(rows):,} rows of {split}" for split, rows in examples.items())
        result = {
            "model": {"checkpoint": name, "from_scratch": False, "pretraining": {}, **provenance},
            "data": f"{source}, {rows}",
            "recipe": {**asdict(recipe), "overrides": [], "device": device},
            "task": task.name,
            "splits": evaluate_splits(classifier, task, task.name, source),
            "checkpoint": BEST,
            "seconds": seconds,
            **training_provenance(folder),
        }
        write_json(folder / RESULT, result)
        results.append(result)
    if len(revisions := sorted({str(result["model"].get("revision")) for result in results})) > 1:
        raise ValueError(
            f"all runs of {run_name} must use one revision of {name}, which changed on the hub, got "
            f"{', '.join(revisions)}; choose another --name"
        )
    return results


def _read_examples(task: Task, source: str) -> dict[str, list[Example]]:
    return {split: read_task_examples(task, source, split) for split in task.splits}


def _checksum_weights(name: str) -> dict[str, str] | None:
    """SHA-256 of each weight file in a folder; None for a name on the hub."""
    patterns = ("*.safetensors", "*.bin") if Path(name).is_dir() else ()
    return {path.name: sha256(path) for pattern in patterns for path in sorted(Path(name).glob(pattern))} or None


def _checksum_rows(examples: dict[str, list[Example]]) -> str | None:
    """SHA-256 of local data, which may change; None for the hub, whose revision is pinned."""
    return hashlib.sha256(repr(examples).encode("utf-8", "surrogatepass")).hexdigest() if examples else None


def _check_recipe(folder: Path, recipe: dict[str, Any]) -> None:
    """Raise ValueError if the folder has another recipe, or a model or data with different content."""
    path = folder / RECIPE
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} is not a run of transformers: it has no {RECIPE}; choose another --name")
        return
    try:
        stored = dict(read_json(path))
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged; delete {folder}, and rerun to train again") from None
    different = [
        f"{key} must be {stored.get(key)}, got {value}"
        for key, value in recipe.items()
        if key not in _CHECKSUMS and stored.get(key) != value
    ]
    if different:
        raise ValueError(f"{folder} has a different recipe: {'; '.join(different[:3])}; choose another --name")
    for key, path_key in _CHECKSUMS.items():
        if stored.get(key) != recipe[key]:
            change = "has changed" if recipe[key] else "is missing"
            raise ValueError(f"{folder} used different {key}: {recipe[path_key]} {change}; choose another --name")


def _train(
    task: Task,
    name: str,
    recipe: Recipe,
    folder: Path,
    examples: dict[str, list[Example]],
    device: str,
    max_positions: int | None,
) -> None:
    """Train, and write ``PROVENANCE`` and then ``BEST``."""
    transformers.set_seed(recipe.seed)  # loading the model initializes the head
    tokenizer, model = _load(task, name)
    default = min(MAX_POSITIONS, resolve_max_positions(model.config, tokenizer))
    n = resolve_max_positions(model.config, tokenizer, default if max_positions is None else max_positions)
    train, valid = (_encode(task, tokenizer, examples[split], n) for split in ("train", "valid"))
    updates, warmup = recipe.count_updates(len(train))
    arguments = transformers.TrainingArguments(
        str(folder / TRAINER),
        seed=recipe.seed,
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=recipe.lr,
        lr_scheduler_type="linear",
        warmup_steps=warmup,
        weight_decay=0.1,
        adam_beta2=0.98,
        adam_epsilon=1e-6,
        max_grad_norm=0.0,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=not task.valid_is_test,
        metric_for_best_model="score",
        greater_is_better=True,
        use_cpu=device == "cpu",
        fp16=device == "cuda",
        report_to=[],
        disable_tqdm=True,
        logging_steps=100,
        dataloader_num_workers=0,
    )
    # The Trainer writes its state last: a checkpoint without it is incomplete.
    checkpoints = [path.parent for path in (folder / TRAINER).glob("checkpoint-*/trainer_state.json")]
    last = max(checkpoints, key=lambda path: int(path.name.split("-")[1]), default=None)
    earlier_seconds = read_json(last / SECONDS) if last and (last / SECONDS).exists() else 0.0
    trainer = _Trainer(
        TrainingProgress(folder.name, updates),
        earlier_seconds,
        model,
        arguments,
        transformers.DataCollatorWithPadding(tokenizer),
        train,
        valid,
        tokenizer,
        compute_metrics=lambda prediction: {"score": _score(task, prediction)},
    )
    with trainer.progress:
        trainer.train(resume_from_checkpoint=last and str(last))
    trainer.save_model(str(folder / f".{BEST}"))
    provenance = {
        "max_positions": n,
        "projected_dim": str(getattr(model.config, "projected_dim", "")),
        "sharing": getattr(model.config, "sharing", ""),
        "projection": getattr(model.config, "projection", ""),
        "parameters": sum(p.numel() for p in model.parameters()),
        "updates": updates,
        "revision": getattr(model.config, "_commit_hash", None),
        "seconds": trainer.seconds(),
    }
    write_json(folder / PROVENANCE, provenance)
    (folder / f".{BEST}").rename(folder / BEST)


def _load(task: Task, name: str) -> tuple[Any, Any]:
    """Load tokenizer and model, with a new classification head."""
    if task.score_range:
        head: dict[str, Any] = {"num_labels": 1, "problem_type": "regression"}
    else:
        names = task.class_names
        head = {"id2label": dict(enumerate(names)), "label2id": {label: i for i, label in enumerate(names)}}
    tokenizer = load_from_transformers(transformers.AutoTokenizer, name)
    auto = transformers.AutoModelForSequenceClassification
    model, info = load_weights_from_transformers(
        auto, name, ignore_mismatched_sizes=True, output_loading_info=True, **head
    )
    # The head is new, and masked language modeling trains no pooler.
    encoder = f"{model.base_model_prefix}."
    check_loaded_weights(name, info, lambda key: not key.startswith(encoder) or "pooler" in key)
    return tokenizer, model


def _encode(task: Task, tokenizer, examples: list[Example], n: int) -> list[dict[str, Any]]:
    rows = []
    for first in range(0, len(examples), 1000):
        batch = examples[first : first + 1000]
        columns = [list(column) for column in zip(*(example.texts for example in batch))]
        encoded = tokenizer(*columns, truncation="longest_first", max_length=n)
        for i, example in enumerate(batch):
            assert example.label is not None  # all rows of a task are labeled
            label = float(example.label) if task.score_range else task.class_index(example.label)
            rows.append({**{key: encoded[key][i] for key in encoded}, "labels": label})
    return rows


def _score(task: Task, prediction) -> float:
    """Score that selects the best epoch: accuracy, or Pearson's correlation (fairseq averages it with Spearman's)."""
    logits, labels = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
    if task.score_range:
        return float(pearsonr(logits.ravel(), labels.ravel()).statistic)
    return float((logits.argmax(1) == labels).mean())


class _SecondsCallback(transformers.TrainerCallback):
    """Stores the seconds of training in each checkpoint."""

    def __init__(self, seconds):
        self.seconds = seconds

    def on_save(self, args, state, control, **kwargs):
        path = Path(args.output_dir) / f"checkpoint-{state.global_step}" / SECONDS
        write_json(path, self.seconds())


class _Trainer(transformers.Trainer):
    """Reports progress, and aborts on non-finite loss or gradients, which the base class logs as 0."""

    def __init__(self, progress: TrainingProgress, earlier_seconds: float, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.progress, self._earlier_seconds = progress, earlier_seconds
        self._start, self._num_tokens = time.monotonic(), 0
        self.remove_callback(transformers.PrinterCallback)  # standard output is for results
        self.add_callback(_SecondsCallback(self.seconds))

    def seconds(self) -> float:
        """Seconds of training, over all attempts."""
        return self._earlier_seconds + time.monotonic() - self._start

    def log(self, logs, *args, **kwargs):
        super().log(logs, *args, **kwargs)
        if "eval_score" in logs:
            scores = f"loss {logs['eval_loss']:.4f}, score {logs['eval_score']:.4f}"
            self.progress.announce(f"{self.progress.name}: epoch {logs['epoch']:g}, valid: {scores}")

    def training_step(self, model, inputs, num_items_in_batch=None):
        self._num_tokens += int(inputs["attention_mask"].sum())
        loss = super().training_step(model, inputs, num_items_in_batch)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        # With fp16 the scaler skips updates with overflowing gradients.
        norm = torch.zeros(()) if self.args.fp16 else torch.nn.utils.get_total_norm(grads)
        update = self.state.global_step + 1
        if not bool(torch.isfinite(loss)) or not bool(torch.isfinite(norm)):
            raise ValueError(
                f"training failed at update {update}: loss and gradients must be finite, got loss {float(loss)} and "
                f"gradient norm {float(norm)}; the last checkpoint, if any, is in {self.args.output_dir}"
            )
        self.progress.record(update, float(loss), self._num_tokens / (time.monotonic() - self._start))
        return loss
