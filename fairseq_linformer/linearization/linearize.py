"""Conversion of a Transformer to a Linformer, with distillation.

OUT/teacher/       the teacher as a fairseq checkpoint, if the source is a model of ``transformers``
OUT/start.pt       the Linformer before training
OUT/run/           the run folder of the distillation, as in training/run_folder.py
OUT/origin.json    source, teacher, text and options; only the same ones resume
OUT/before.json    the explained variance before training
OUT/report.json    explained variance of the teacher's features, by layer, before, during and after
OUT/model.pt       the Linformer, with dictionary and tokenizer next to it
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary

from ..checkpoints.files import (
    LAST,
    get_cfg_section,
    is_fairseq_checkpoint,
    read_checkpoint,
    replace_checkpoint,
    write_checkpoint,
)
from ..checkpoints.from_transformers import MODEL, read_transformers, to_linformer, write_model
from ..data.tokenizer_files import DICTIONARY, TOKENIZER_FILES
from ..files import check_can_be_written, check_data_path, check_new_folder, new_folder, sha256, write_json
from ..models.datasets import open_dataset
from ..models.dictionaries import read_masked_lm_dictionary
from ..models.distillation import TEACHER_KEY, Teacher
from ..models.shapes import head_names, max_positions, upgrade_names
from ..modules.windows import ceil_div
from ..resources import CONFIGS
from ..training import local, run_folder
from ..training.initial_checkpoint import open_initial_checkpoint
from ..training.job import TrainingJob, quote
from .explained_variance import explained_variance
from .options import Linearization
from .origin import ORIGIN, check_finished, check_unfinished, describe_options, name_source, read_stored, write_origin

CONFIG = CONFIGS / "distill" / "base.yaml"
START, TEACHER_FOLDER = "start.pt", "teacher"
BEFORE, REPORT = "before.json", "report.json"
VALID = "valid.bin"
RUN = "run"
WARMUP = 0.05
"""Share of the updates with learning rate warmup."""
BATCH_MULTIPLE = 8
"""fairseq's default of ``required_batch_size_multiple``. It may drop the last batch of an epoch if the size is not a
multiple, so fewer blocks could leave none."""


def linearize(options: Linearization, out) -> dict[str, Any]:
    """Convert, distill and measure; rerun to resume.

    Args:
        out: folder; new, or of an earlier run with the same options, which is resumed, or only reported if finished.

    Returns:
        The report.

    Raises:
        ValueError: an input is missing or does not fit, or ``out`` belongs to other options.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: training was stopped by a signal.
    """
    out = Path(out).absolute()
    if not Path(options.text).is_dir():
        raise ValueError(f"--text must be a folder that `prepare pretraining` wrote, got {options.text}")
    check_data_path(options.text, "--text")
    if _is_finished(out):
        report = read_stored(out / REPORT)
        check_finished(options, out, report.get("source", ""))
        _check_valid(options, out)
        return report
    teacher = _prepare(options, out)
    length = options.tokens_per_sample or int(get_cfg_section(read_checkpoint(out / START), "model")["max_positions"])
    before = _measure_before(options, out, teacher, length)
    student = out / START
    if options.max_update:
        training = _build_job(options, out, teacher, length)
        local.train(training)
        student = training.folder / run_folder.CHECKPOINTS / LAST

    def measure(checkpoint: Path) -> list[float]:
        return explained_variance(teacher, checkpoint, options.text, length)

    at = {str(update): measure(_find_checkpoint(student.parent, update)) for update in options.measure_at}
    report = {
        "source": name_source(options),
        TEACHER_KEY: sha256(teacher),
        "options": describe_options(options),
        "tokens_at_most": options.max_update * options.batch_size * length,
        "variance_before": before,
        **({"variance_at": at} if at else {}),
        "variance_after": measure(student) if options.max_update else before,
    }
    _write_model(out, student, teacher, report)
    write_json(out / REPORT, report)
    return report


def _measure_before(options: Linearization, out: Path, teacher: Path, length: int) -> list[float]:
    """The explained variance before training, measured once per validation split."""
    valid, stored = sha256(Path(options.text) / VALID), _read_before(out)
    if stored.get("valid") != valid:
        stored = {"valid": valid, "shares": explained_variance(teacher, out / START, options.text, length)}
        write_json(out / BEFORE, stored)
    before: list[float] = stored["shares"]
    return before


def _is_finished(out: Path) -> bool:
    return (out / REPORT).is_file() and (out / MODEL).is_file()


def _check_valid(options: Linearization, out: Path) -> None:
    """Raise ValueError if the explained variance before training was measured on another validation split."""
    path, stored = Path(options.text) / VALID, _read_before(out)
    if path.is_file() and stored and stored.get("valid") != sha256(path):
        raise ValueError(f"{path} is not the one that {out} was measured on; pass that text, or choose another OUT")


def _read_before(out: Path) -> dict[str, Any]:
    """``BEFORE``; empty if it does not exist."""
    return read_stored(out / BEFORE) if (out / BEFORE).is_file() else {}


def _find_checkpoint(folder: Path, update: int) -> Path:
    """The checkpoint after a number of updates: fairseq names it ``checkpoint_EPOCH_UPDATE.pt``, or at the end of an
    epoch ``checkpointEPOCH.pt``."""
    if found := sorted(folder.glob(f"checkpoint_*_{update}.pt")):
        return found[0]
    for path in folder.glob("checkpoint[0-9]*.pt"):
        if read_checkpoint(path)["optimizer_history"][-1]["num_updates"] == update:
            return path
    raise ValueError(f"{folder} has no checkpoint after update {update}; delete {folder.parent} to train again")


def _prepare(options: Linearization, out: Path) -> Path:
    """Write the teacher, the student's start and the origin, unless they exist; returns the teacher's path.

    All are written, or none.
    """
    teacher = _find_teacher(options, out)
    if (out / ORIGIN).is_file():
        check_unfinished(options, out, teacher)
        return teacher
    check_can_be_written(out)
    check_new_folder(out)
    dictionary = _read_dictionary(options.text)
    train, _ = (open_dataset(Path(options.text) / split) for split in ("train", "valid"))
    torch.manual_seed(options.seed)
    is_checkpoint = is_fairseq_checkpoint(options.source)
    if is_checkpoint:
        checkpoint, vocabulary = read_checkpoint(options.source), None
        _check_encoder(checkpoint, options.source)
    else:
        checkpoint, vocabulary = read_transformers(options.source)
    _check_student_positions(checkpoint, options)
    start = to_linformer(checkpoint, **options.model)
    n = get_cfg_section(start, "model")["max_positions"]
    length = options.tokens_per_sample or n
    if not 2 <= length <= n:
        raise ValueError(f"tokens_per_sample must be between 2 and the student's {n}, got {length}")
    blocks = ceil_div(int(train.sizes.sum()), length - 1)  # <s> is added to each
    if options.max_update and blocks < BATCH_MULTIPLE:
        raise ValueError(f"--text must have at least {BATCH_MULTIPLE} training blocks of {length} tokens, got {blocks}")
    with new_folder(out) as folder:
        if vocabulary is not None:
            (folder / TEACHER_FOLDER).mkdir()
            write_model(folder / TEACHER_FOLDER, checkpoint, vocabulary)
        frozen = Teacher(str(teacher if is_checkpoint else folder / TEACHER_FOLDER / MODEL), name=options.source)
        frozen.check_task(dictionary, length, options.text)
        write_checkpoint(start, folder / START)
        write_origin(options, frozen.sha256, folder)
    return teacher


def _read_dictionary(text: str) -> Dictionary:
    """The dictionary of masked language modeling on a folder; ValueError if it has none."""
    path = Path(text) / DICTIONARY
    if not path.is_file():
        raise ValueError(f"{path} does not exist; expected a folder that `prepare pretraining` wrote")
    return read_masked_lm_dictionary(path)


def _find_teacher(options: Linearization, out: Path) -> Path:
    """The teacher: the source if it is a fairseq checkpoint, else the checkpoint converted from it in OUT."""
    return Path(options.source).absolute() if is_fairseq_checkpoint(options.source) else out / TEACHER_FOLDER / MODEL


def _check_student_positions(checkpoint: dict[str, Any], options: Linearization) -> None:
    """Raise ValueError if the student has more positions than the teacher, which has no trained embeddings for them."""
    own, n = max_positions(upgrade_names(checkpoint["model"])), options.model.get("max_positions")
    if n is not None and n > own:
        raise ValueError(
            f"max_positions must be at most the {own} of {options.source}, got {n}; lengthen the result with "
            "`convert resize`"
        )


def _check_encoder(checkpoint: dict[str, Any], name: str) -> None:
    """Raise ValueError unless a fairseq checkpoint has a dictionary next to it, and no classification head."""
    if heads := head_names(checkpoint["model"]):
        raise ValueError(
            f"{name} must have no classification head, since `linearize` distills the encoder, got {', '.join(heads)}; "
            "distill a finetuned model with the criterion linformer_distillation"
        )
    if not (Path(name).parent / DICTIONARY).is_file():
        raise ValueError(f"{name} needs its {DICTIONARY} next to it")


def _build_job(options: Linearization, out: Path, teacher: Path, length: int) -> TrainingJob:
    student = open_initial_checkpoint(out / START, out)
    overrides = (
        f"common.seed={options.seed}",
        f"common.amp={str(options.amp).lower()}",
        f"task.data={quote(str(Path(options.text).absolute()))}",
        f"task.tokens_per_sample={length}",
        f"checkpoint.finetune_from_model={quote(str(student.path))}",
        f"criterion.teacher={quote(str(teacher))}",
        f"criterion.short_seq_prob={options.short_seq_prob}",
        *student.overrides,
        f"++model.max_positions={student.max_positions}",
        f"dataset.batch_size={options.batch_size}",
        f"optimization.lr=[{options.lr!r}]",
        f"optimization.max_update={options.max_update}",
        f"lr_scheduler.warmup_updates={round(WARMUP * options.max_update)}",
        f"lr_scheduler.total_num_update={options.max_update}",
    )
    if options.measure_at:
        overrides += (
            f"checkpoint.save_interval_updates={options.measure_at[0]}",
            "checkpoint.keep_interval_updates=-1",
            "checkpoint.no_epoch_checkpoints=false",
        )
    return TrainingJob(str(CONFIG), overrides, 1, options.device, str(out), RUN)


def _write_model(out: Path, student: Path, teacher: Path, report: dict[str, Any]) -> None:
    """Write the student without optimizer state, with its origin, dictionary and tokenizer."""
    checkpoint = read_checkpoint(student)
    checkpoint.pop("last_optimizer_state", None)
    # The criterion of the checkpoint would need the teacher.
    checkpoint["cfg"] = {**checkpoint["cfg"], "criterion": {"_name": "masked_lm", "tpu": False}}
    origin = read_checkpoint(teacher).get("provenance", {})
    checkpoint["provenance"] = {**origin, **({"distilled": report} if report["tokens_at_most"] else {})}
    for name in (DICTIONARY, *TOKENIZER_FILES):
        if (teacher.parent / name).is_file():
            shutil.copyfile(teacher.parent / name, out / name)
    replace_checkpoint(checkpoint, out / MODEL)  # an attempt may have been killed before its report
