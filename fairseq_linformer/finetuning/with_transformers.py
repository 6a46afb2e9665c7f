"""Models that are not ours, RoBERTa, BERT or DistilBERT, on the same texts by ``transformers.Trainer``.

The recipe is the same: rates, batches, epochs and seeds. The Trainer decays no biases and norms, fairseq decays all.

    RUN/recipe.json     the recipe; another one is refused
    RUN/trainer/        the Trainer's checkpoints, one per epoch
    RUN/provenance.json facts about the model, and the seconds of training
    RUN/attempts.jsonl    as launching/run_folder.py has it
    RUN/best/           the best model with its tokenizer; the last, if no set may choose it
    RUN/result.json     as ``run.py`` has it
"""

import hashlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
from scipy.stats import pearsonr

from ..errors import first_line
from ..evaluation.rows import task_examples
from ..evaluation.texts import Example
from ..evaluation.transformers_classifier import TransformersClassifier, longest_input, quiet
from ..files import sha256, write_lines
from ..launching.arguments import check_run_name
from ..launching.run_folder import locked, record_attempt, training_provenance
from ..task_data.cut import MAX_POSITIONS
from ..task_data.table import Task
from .recipe import Recipe, run_names
from .run import RESULT, evaluate_splits, read_result, write_result

_SUMS = {"weights": "model", "rows": "source"}
"""Fields of ``RECIPE`` with the content of a path, and the fields with that path."""
BEST, RECIPE, TRAINER, PROVENANCE, SECONDS = "best", "recipe.json", "trainer", "provenance.json", "seconds.json"


def finetune_transformers(
    task: Task, name: str, recipes: Sequence[Recipe], runs: str, run_name: str, source: str, device: str,
    max_positions: Optional[int] = None,
) -> List[Dict[str, Any]]:  # fmt: skip
    """Run what is not run yet; the result of each.

    Args:
        name: of a model on the hub, or a folder.
        source: of the task, as for ``prepare``.
        max_positions: longer rows are cut; None for 512, or the model's n if that is less.

    Raises:
        ValueError: model or task cannot be loaded, a folder is of another recipe, model or data, ``device`` is gpu and
            there is not one GPU, or the loss is not finite.
    """
    check_run_name(run_name, runs)
    if device == "gpu" and not torch.cuda.is_available():
        raise ValueError("--device is gpu, and PyTorch sees no GPU here; use --device cpu")
    if device == "gpu" and (count := torch.cuda.device_count()) > 1:
        trouble = "transformers would train a batch on each"
        raise ValueError(f"PyTorch sees {count} GPUs, and {trouble}; set CUDA_VISIBLE_DEVICES=0 to use one")
    folders = [Path(runs, folder) for folder in run_names(run_name, recipes)]
    examples: Dict[str, List[Example]] = _examples(task, source) if Path(source).exists() else {}
    data = {"model": name, "task": task.name, "source": source, "max_positions": max_positions}
    data |= {"weights": _sum_of_weights(name), "rows": _sum_of_rows(examples)}
    for recipe, folder in zip(recipes, folders):
        _check_recipe(folder, {**data, **asdict(recipe)})
    results = []
    for recipe, folder in zip(recipes, folders):
        if (folder / RESULT).exists():
            results.append(read_result(folder / RESULT))
            continue
        examples = examples or _examples(task, source)
        write_lines(folder / RECIPE, [json.dumps({**data, **asdict(recipe)}, indent=1)])
        if not (folder / BEST).exists():
            with locked(folder):
                record_attempt(folder, processes=1)
                _train(task, name, recipe, folder, examples, device, max_positions)
        provenance = json.loads((folder / PROVENANCE).read_text())
        seconds = provenance.pop("seconds")
        torch_device = "cuda" if device == "gpu" else "cpu"
        classifier = TransformersClassifier(str(folder / BEST), torch_device, provenance["max_positions"])
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
        results.append(write_result(folder / RESULT, result))
    if len(revisions := sorted({str(result["model"].get("revision")) for result in results})) > 1:
        raise ValueError(
            f"the runs of {run_name} began from several revisions of {name}: {', '.join(revisions)}; it has changed on "
            "the hub since, give another --name"
        )
    return results


def _examples(task: Task, source: str) -> Dict[str, List[Example]]:
    return {split: task_examples(task, source, split) for split in task.splits}


def _sum_of_weights(name: str) -> Optional[Dict[str, str]]:
    """SHA-256 of each file of weights in a folder; None for a name on the hub."""
    patterns = ("*.safetensors", "*.bin") if Path(name).is_dir() else ()
    return {path.name: sha256(path) for pattern in patterns for path in sorted(Path(name).glob(pattern))} or None


def _sum_of_rows(examples: Dict[str, List[Example]]) -> Optional[str]:
    """SHA-256 of local data, since a path's content may change; None for the hub, whose revision is fixed."""
    return hashlib.sha256(repr(examples).encode("utf-8", "surrogatepass")).hexdigest() if examples else None


def _check_recipe(folder: Path, recipe: Dict[str, Any]) -> None:
    path = folder / RECIPE
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} is no run of transformers, since it has no {RECIPE}; give another --name")
        return
    try:
        before = dict(json.loads(path.read_text()))
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged; move {folder} away, and rerun to train again") from None
    differing = [
        f"{key} is {before.get(key)} there and {value} here"
        for key, value in recipe.items()
        if key not in _SUMS and before.get(key) != value
    ]
    if differing:
        raise ValueError(f"{folder} holds another run: {'; '.join(differing[:3])}; give another --name")
    for key, path_key in _SUMS.items():
        if before.get(key) != recipe[key]:
            changed = f"{recipe[path_key]} has changed under its name since"
            raise ValueError(f"{folder} was trained from other {key}: {changed}; give another --name")


def _train(
    task: Task, name: str, recipe: Recipe, folder: Path, examples: Dict[str, List[Example]], device: str,
    max_positions: Optional[int],
) -> None:  # fmt: skip
    """Write ``BEST``, and before it ``PROVENANCE``."""
    from transformers import (
        AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, PrinterCallback, Trainer,
        TrainingArguments, set_seed,
    )  # fmt: skip

    from .. import huggingface  # noqa: F401  AutoModel then knows a Linformer

    quiet()
    if task.score:
        labels = {"num_labels": 1, "problem_type": "regression"}
    else:
        labels = {"id2label": dict(enumerate(task.names)), "label2id": {n: i for i, n in enumerate(task.names)}}
    set_seed(recipe.seed)  # the head is drawn when the model is loaded
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model = AutoModelForSequenceClassification.from_pretrained(
            name, trust_remote_code=False, ignore_mismatched_sizes=True, **labels
        )
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{name} cannot be loaded by transformers: {first_line(error)}") from None
    default = min(MAX_POSITIONS, longest_input(model.config, tokenizer))
    n = longest_input(model.config, tokenizer, default if max_positions is None else max_positions)
    train, valid = (_encoded(task, tokenizer, examples[split], n) for split in ("train", "valid"))
    updates, warmup = recipe.updates(len(train))
    on_gpu = device == "gpu"
    arguments = TrainingArguments(
        str(folder / TRAINER), seed=recipe.seed, num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size, per_device_eval_batch_size=64,
        learning_rate=recipe.lr, lr_scheduler_type="linear", warmup_steps=warmup,
        weight_decay=0.1, adam_beta2=0.98, adam_epsilon=1e-6, max_grad_norm=0.0,
        eval_strategy="epoch", save_strategy="epoch", save_total_limit=1,
        load_best_model_at_end=not task.valid_is_test, metric_for_best_model="score", greater_is_better=True,
        use_cpu=not on_gpu, fp16=on_gpu, report_to=[], disable_tqdm=not sys.stderr.isatty(), logging_steps=100,
        dataloader_num_workers=0,
    )  # fmt: skip
    trainer = _finite(Trainer)(
        model, arguments, DataCollatorWithPadding(tokenizer), train, valid, tokenizer,
        compute_metrics=lambda found: {"score": _score(task, found)},
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)  # standard output is for results
    # The Trainer writes its state last: a checkpoint without it is incomplete.
    complete = [path.parent for path in (folder / TRAINER).glob("checkpoint-*/trainer_state.json")]
    last = max(complete, key=lambda path: int(path.name.split("-")[1]), default=None)
    before = json.loads((last / SECONDS).read_text()) if last and (last / SECONDS).exists() else 0.0
    begun = time.monotonic()
    trainer.add_callback(_clock(lambda: before + time.monotonic() - begun))
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
        "seconds": before + time.monotonic() - begun,
    }
    write_lines(folder / PROVENANCE, [json.dumps(provenance)])
    (folder / f".{BEST}").rename(folder / BEST)


def _encoded(task: Task, tokenizer, examples: List[Example], n: int) -> List[Dict[str, Any]]:
    rows = []
    for start in range(0, len(examples), 1000):
        batch = examples[start : start + 1000]
        columns = [list(column) for column in zip(*(example.texts for example in batch))]
        found = tokenizer(*columns, truncation="longest_first", max_length=n)
        for i, example in enumerate(batch):
            label = float(example.label) if task.score else task.number(example.label)
            rows.append({**{key: found[key][i] for key in found}, "labels": label})
    return rows


def _score(task: Task, found) -> float:
    """Chooses the best: accuracy as in fairseq, or Pearson's correlation, for fairseq's mean with Spearman's."""
    logits, labels = np.asarray(found.predictions), np.asarray(found.label_ids)
    if task.score:
        return float(pearsonr(logits.ravel(), labels.ravel()).statistic)
    return float((logits.argmax(1) == labels).mean())


def _clock(seconds: Callable[[], float]):
    """Puts the seconds so far beside each checkpoint of the Trainer."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / SECONDS).write_text(json.dumps(seconds()))

    return Clock()


def _finite(trainer):
    """A Trainer that stops if the loss or the gradients are not finite, instead of counting them as 0 in its log."""

    class Finite(trainer):
        def log(self, logs, *args, **kwargs):
            super().log(logs, *args, **kwargs)
            if "eval_score" in logs:
                values = f"loss {logs['eval_loss']:.4f}, score {logs['eval_score']:.4f}"
                print(f"epoch {logs['epoch']:g}: {values}", file=sys.stderr)

        def training_step(self, model, inputs, num_items_in_batch=None):
            loss = super().training_step(model, inputs, num_items_in_batch)
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            # With fp16 the scaler skips updates whose gradients overflow.
            norm = torch.zeros(()) if self.args.fp16 else torch.nn.utils.get_total_norm(grads)
            if not bool(torch.isfinite(loss)) or not bool(torch.isfinite(norm)):
                raise ValueError(
                    f"training failed: update {self.state.global_step + 1}: the loss is {float(loss)}, or its "
                    f"gradients are not finite; the last good checkpoint, if any, is in {self.args.output_dir}"
                )
            return loss

    return Finite
