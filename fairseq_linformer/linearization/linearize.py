"""``fairseq-linformer linearize``: a Transformer in, a Linformer with nearly the same features out.

OUT/teacher/       the Transformer for fairseq, if it is one of ``transformers``
OUT/start.pt       the Linformer before training
OUT/run/           the run folder of the distillation, as in launching/run_folder.py
OUT/origin.json    source, text and options; only the same ones resume
OUT/report.json    share of the teacher's variance that survives, by layer, before and after
OUT/model.pt       the Linformer, with dictionary and tokenizer next to it
"""

import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.files import get_cfg_section, is_fairseq_checkpoint, read_checkpoint, write_checkpoint
from ..checkpoints.from_transformers import from_transformers
from ..checkpoints.roberta import from_roberta
from ..corpus.tokenizer_files import DICTIONARY, TOKENIZER_FILES
from ..distillation import Teacher
from ..files import read_json, sha256, write_lines
from ..finetuning.initial_checkpoint import open_checkpoint
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training_job import TrainingJob, quote
from ..models.shapes import max_positions, upgrade_names
from ..resources import CONFIGS
from .survival import measure_survival

CONFIG = CONFIGS / "distill" / "base.yaml"
START, MODEL, REPORT, ORIGIN, LOG = "start.pt", "model.pt", "report.json", "origin.json", "distillation.txt"
WARMUP = 0.05
"""Share of the updates in which the learning rate rises."""


@dataclass(frozen=True)
class Linearization:
    """What to convert, on which text, and how long to train.

    Attributes:
        source: name on the hub, folder of ``transformers``, or fairseq checkpoint of a RoBERTa.
        text: folder with ``dict.txt``, train and valid, of the source's tokenizer.
        model: options of the Linformer, as for ``from_roberta``.
        tokens_per_sample: n of the training; None for the model's.
        batch_size: blocks of n tokens per update.
        max_update: updates; 0 to convert only.
        lr: peak learning rate; it decays linearly to 0.
        seed: of new parameters and of the order of the text.
        device: ``cpu`` or ``cuda``.

    Raises:
        ValueError: a value is out of range.
    """

    source: str
    text: str
    model: dict[str, Any]
    tokens_per_sample: int | None = None
    batch_size: int = 16
    max_update: int = 1000
    lr: float = 4e-4
    seed: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, lowest in (("batch_size", 1), ("max_update", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}")
        if not self.lr > 0:
            raise ValueError(f"lr must be above 0, got {self.lr}")
        if self.tokens_per_sample is not None and self.tokens_per_sample < 2:
            raise ValueError(f"tokens_per_sample must be at least 2, got {self.tokens_per_sample}")


def linearize(what: Linearization, out, until: float | None = None) -> dict[str, Any] | None:
    """Convert, distill and measure; rerun to resume.

    Args:
        out: folder, new or of an interrupted run with the same options.
        until: value of ``time.monotonic()`` at which to stop.

    Returns:
        The report; None if training was stopped at ``until``.

    Raises:
        ValueError: an input is missing or does not fit, or ``out`` belongs to other options.
        OSError: a file cannot be read or written.
    """
    out = Path(out).absolute()
    if (out / REPORT).is_file():
        _check_origin(what, out)
        report: dict[str, Any] = read_json(out / REPORT)
        return report
    teacher = _prepare(what, out)
    n = what.tokens_per_sample or int(get_cfg_section(read_checkpoint(out / START), "model")["max_positions"])
    frozen = Teacher(str(teacher))
    before = measure_survival(teacher, out / START, what.text, n)
    last, seconds = out / START, 0.0
    if what.max_update:
        training = _training(what, out, teacher, n)
        if not (training.folder / run_folder.DONE).exists():
            started = time.monotonic()
            if not local.train(training, LOG, what.max_update, until):
                return None
            seconds = time.monotonic() - started
        last = training.folder / run_folder.CHECKPOINTS / LAST
    report = {
        "source": Path(what.source).name,
        "teacher_sha256": frozen.sha256,
        "options": {key: value for key, value in asdict(what).items() if key not in ("source", "text")},
        "tokens": what.max_update * what.batch_size * n,
        "variance_before": before,
        "variance_after": measure_survival(teacher, last, what.text, n) if what.max_update else before,
        "seconds_of_the_last_attempt": round(seconds, 1),
    }
    _write_model(out, last, teacher, report)
    write_lines(out / REPORT, [json.dumps(report, indent=1)])
    return report


def _prepare(what: Linearization, out: Path) -> Path:
    """Write the teacher (unless it is a fairseq checkpoint) and the student's start; returns the teacher's path."""
    import torch

    if not Path(what.text).is_dir():
        raise ValueError(f"--text must be a folder that `prepare pretraining` wrote, got {what.text}")
    is_own = is_fairseq_checkpoint(what.source)
    teacher = Path(what.source).absolute() if is_own else out / "teacher" / MODEL
    if (out / ORIGIN).is_file():
        _check_origin(what, out)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"OUT must be a new or empty folder, or that of an interrupted run, got {out}")
    if not is_own and not teacher.is_file():
        out.mkdir(parents=True, exist_ok=True)
        from_transformers(what.source, teacher.parent, arch="roberta", max_positions=what.model.get("max_positions"))
    if not (out / START).is_file():
        torch.manual_seed(what.seed)
        checkpoint = read_checkpoint(teacher)
        n = what.model.get("max_positions", max_positions(upgrade_names(checkpoint["model"])))
        start = from_roberta(checkpoint, **{"projected_dim": max(1, n // 4), **what.model})
        out.mkdir(parents=True, exist_ok=True)
        write_checkpoint(start, out / START)
    if not (out / ORIGIN).is_file():
        write_lines(out / ORIGIN, [json.dumps(_origin(what, teacher), indent=1)])
    return teacher


def _origin(what: Linearization, teacher: Path) -> dict[str, Any]:
    files = [Path(what.text) / name for name in (DICTIONARY, "train.idx")]
    text = {path.name: sha256(path) for path in files if path.is_file()}
    values = {key: value for key, value in asdict(what).items() if key not in ("source", "text")}
    return json.loads(json.dumps({**values, "teacher": sha256(teacher), "text": text}))


def _check_origin(what: Linearization, out: Path) -> None:
    stored = read_json(out / ORIGIN)
    teacher = out / "teacher" / MODEL
    current = _origin(what, teacher if teacher.is_file() else Path(what.source))
    for key, value in current.items():
        if stored.get(key) != value:
            raise ValueError(f"{out} has {key} {stored.get(key)}, got {value}; choose another OUT")


def _training(what: Linearization, out: Path, teacher: Path, n: int) -> TrainingJob:
    student = open_checkpoint(out / START, out)
    overrides = (
        f"common.seed={what.seed}",
        f"task.data={quote(str(Path(what.text).absolute()))}",
        f"task.tokens_per_sample={n}",
        f"checkpoint.finetune_from_model={quote(str(student.path))}",
        f"criterion.teacher={quote(str(teacher))}",
        *student.overrides,
        f"++model.max_positions={student.max_positions}",
        f"dataset.batch_size={what.batch_size}",
        f"optimization.lr=[{what.lr!r}]",
        f"optimization.max_update={what.max_update}",
        f"lr_scheduler.warmup_updates={round(WARMUP * what.max_update)}",
        f"lr_scheduler.total_num_update={what.max_update}",
    )
    return TrainingJob(str(CONFIG), overrides, 1, what.device, str(out), "run")


def _write_model(out: Path, last: Path, teacher: Path, report: dict[str, Any]) -> None:
    """Write the student without optimizer state, with its origin, dictionary and tokenizer."""
    trained = read_checkpoint(last)
    trained.pop("last_optimizer_state", None)
    # The criterion of the checkpoint would need the teacher.
    trained["cfg"] = {**trained["cfg"], "criterion": {"_name": "masked_lm", "tpu": False}}
    earlier = read_checkpoint(teacher).get("provenance", {})
    trained["provenance"] = {**earlier, "distilled": report}
    for name in (DICTIONARY, *TOKENIZER_FILES):
        if (teacher.parent / name).is_file():
            shutil.copyfile(teacher.parent / name, out / name)
    (out / MODEL).unlink(missing_ok=True)  # left by an attempt that was killed before the report
    write_checkpoint(trained, out / MODEL)
