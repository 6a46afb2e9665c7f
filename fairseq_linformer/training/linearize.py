"""Conversion of a Transformer to a Linformer, with distillation.

OUT/teacher/       the teacher as a fairseq checkpoint, if the source is a model of ``transformers``
OUT/untrained.pt   the Linformer before training
OUT/run/           the run folder of the distillation, as in training/run_folder.py
OUT/inputs.json    source, text and options; only the same ones resume
OUT/report.json    explained variance of the teacher's features, by layer, before, during and after
OUT/model.pt       the Linformer, with dictionary and tokenizer next to it
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.convert import lengthen, read_model
from ..checkpoints.files import get_cfg_section, read_checkpoint, write_checkpoint, write_model
from ..checkpoints.identify import LAST, MODEL, Kind, ModelPath, identify
from ..checkpoints.to_linformer import to_linformer
from ..checkpoints.transformers_loading import hash_weights
from ..config import check_values, setting
from ..data.tokenizer_files import DICTIONARY
from ..files import INPUTS, check_data_path, claim, new_folder, read_json, sha256, write_json
from ..models.datasets import open_dataset
from ..models.dictionaries import read_masked_lm_dictionary
from ..models.distillation import TEACHER_KEY, Teacher
from ..models.state_dicts import head_names
from ..resources import CONFIGS
from . import local, run_folder
from .explained_variance import explained_variance
from .initial_checkpoint import open_initial_checkpoint
from .job import TrainingJob, quote

DISTILLATION_YAML = CONFIGS / "distill" / "base.yaml"
UNTRAINED, TEACHER_FOLDER = "untrained.pt", "teacher"
REPORT = "report.json"
RUN = "run"
WARMUP = 0.05
"""Share of the updates with learning rate warmup."""
_TEXT_FILES = (DICTIONARY, "train.idx", "valid.idx")
"""Files of a text that identify it: small ones, with the length of every sentence."""


@dataclass(frozen=True)
class Linearization:
    """A Transformer, the text and the options with which ``linearize`` makes it a Linformer.

    Attributes:
        source: name on the hub, folder of ``transformers``, or fairseq checkpoint of a RoBERTa.
        text: data folder of ``prepare pretraining`` (``dict.txt``, train and valid), with the source's tokenizer.
        model: options of the Linformer, as for ``to_linformer``.
        tokens_per_sample: tokens per block; None for the model's n.
        batch_size: blocks per update.
        max_update: number of updates; 0 converts without training.
        lr: peak learning rate; it decays linearly to 0.
        short_seq_prob: probability that a batch is split into shorter blocks, see ``models/distillation.py``.
        seed: seed of new parameters and of the order of the blocks.
        device: ``cpu`` or ``cuda``.
        amp: train in mixed precision, with bf16 on a CPU and fp16 on a GPU.
        measure_at: updates after which the explained variance is measured too, ascending multiples of the first; a
            checkpoint is kept at each multiple and at the end of each epoch.
    """

    source: str
    text: str
    model: dict[str, Any]
    tokens_per_sample: int | None = None
    batch_size: int = setting(16, at_least=1)
    max_update: int = setting(1000, at_least=0)
    lr: float = setting(2e-4, above=0)
    short_seq_prob: float = setting(0.5, at_least=0, below=1)
    seed: int = setting(1, at_least=0, at_most=(1 << 32) - 1)
    device: str = "cpu"
    amp: bool = False
    measure_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_values(Linearization, self)

    @property
    def inputs(self) -> dict[str, Any]:
        """What determines the outputs: source, text and options; of files, the checksums."""
        source = identify(self.source).path
        inputs = {
            **asdict(self),
            **self.model,
            "source": hash_weights(source) if Path(source).exists() else source,  # or a name on the hub
            "text": {name: sha256(Path(self.text, name)) for name in _TEXT_FILES},
            "measure_at": list(self.measure_at),
        }
        del inputs["model"]
        return inputs


def linearize(options: Linearization, out) -> dict[str, Any]:
    """Convert, distill and measure; rerun to resume.

    Args:
        out: folder; new, or of an earlier run with the same options, which is resumed, or only reported if finished.

    Returns:
        The report.

    Raises:
        KeyboardInterrupt: training was stopped by a signal.
    """
    out = Path(out).absolute()
    if options.device == "cuda" and not (torch.cuda.is_available() or (out / REPORT).is_file()):
        raise ValueError("device must be cpu if PyTorch sees no GPU, got cuda")
    check_data_path(options.text, "--text")
    if not (Path(options.text) / DICTIONARY).is_file():
        raise ValueError(f"--text must be a folder that `prepare pretraining` wrote, got {options.text}")
    source = identify(options.source)
    if not (out / INPUTS).is_file():
        _prepare(options, source, out)
    claim(out, options.inputs)
    if (out / REPORT).is_file():
        return dict(read_json(out / REPORT))
    teacher = Path(source.path).absolute() if source.kind is Kind.FAIRSEQ else out / TEACHER_FOLDER / MODEL
    student = out / UNTRAINED
    untrained = get_cfg_section(read_checkpoint(student), "model")
    length = options.tokens_per_sample or int(untrained["max_positions"])

    def measure(checkpoint: Path) -> list[float]:
        return explained_variance(teacher, checkpoint, options.text, length)

    if options.max_update:
        training = _build_job(options, out, teacher, length)
        run_folder.check_run_folder(training)
        local.train(training)
        student = training.folder / run_folder.CHECKPOINTS / LAST
    before = measure(out / UNTRAINED)
    at = {str(update): measure(_find_checkpoint(student.parent, update)) for update in options.measure_at}
    report = {
        TEACHER_KEY: sha256(teacher),
        "tokens_at_most": options.max_update * options.batch_size * length,
        "variance_before": before,
        **({"variance_at": at} if at else {}),
        "variance_after": measure(student) if options.max_update else before,
    }
    original, files = read_model(ModelPath(Kind.FAIRSEQ, str(teacher)))
    distilled = {"distilled": report} if options.max_update else {}
    finished = _finish(student, untrained, {**original.get("provenance", {}), **distilled})
    write_model(out, finished, lengthen(files, original, finished))
    write_json(out / REPORT, report)
    return report


def _find_checkpoint(folder: Path, update: int) -> Path:
    """The checkpoint after a number of updates: fairseq names it ``checkpoint_EPOCH_UPDATE.pt``, or at the end of an
    epoch ``checkpointEPOCH.pt``."""
    epochs = (
        path
        for path in folder.glob("checkpoint[0-9]*.pt")
        if read_checkpoint(path)["optimizer_history"][-1]["num_updates"] == update
    )
    return next(folder.glob(f"checkpoint_*_{update}.pt"), None) or next(epochs)


def _prepare(options: Linearization, source: ModelPath, out: Path) -> None:
    """Write the teacher, the untrained student and the inputs: all, or none."""
    for split in ("train", "valid"):
        open_dataset(Path(options.text) / split)
    torch.manual_seed(options.seed)
    checkpoint, files = read_model(source)
    if DICTIONARY not in files:
        raise ValueError(f"{options.source} needs its {DICTIONARY} next to it")
    if heads := head_names(checkpoint["model"]):
        raise ValueError(
            f"{options.source} must have no classification head, since `linearize` distills the encoder, got "
            f"{', '.join(heads)}; distill the encoder before you finetune it"
        )
    student = to_linformer(checkpoint, **options.model)
    n = get_cfg_section(student, "model")["max_positions"]
    length = options.tokens_per_sample or n
    if not 2 <= length <= n:
        raise ValueError(f"tokens_per_sample must be between 2 and the student's {n}, got {length}")
    with new_folder(out) as folder:
        teacher = Path(source.path)
        if source.kind is not Kind.FAIRSEQ:
            (folder / TEACHER_FOLDER).mkdir()
            write_model(folder / TEACHER_FOLDER, checkpoint, files)
            teacher = folder / TEACHER_FOLDER / MODEL
        dictionary = read_masked_lm_dictionary(Path(options.text) / DICTIONARY)
        Teacher(str(teacher), name=options.source).check_task(dictionary, length, options.text)
        write_checkpoint(student, folder / UNTRAINED)
        claim(folder, options.inputs)


def _build_job(options: Linearization, out: Path, teacher: Path, length: int) -> TrainingJob:
    student = open_initial_checkpoint(identify(out / UNTRAINED), out)
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
        "dataset.required_batch_size_multiple=1",  # fairseq's default of 8 drops other last batches
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
    return TrainingJob(str(DISTILLATION_YAML), overrides, 1, options.device, str(out), RUN)


def _finish(student: Path, untrained: dict[str, Any], provenance: dict[str, Any]) -> dict[str, Any]:
    """The student as it is published: without optimizer state, with provenance, and with the dropout of the options
    before training."""
    checkpoint = read_checkpoint(student)
    checkpoint.pop("last_optimizer_state", None)
    dropout = {name: value for name, value in untrained.items() if "dropout" in name}
    checkpoint["cfg"] = {
        **checkpoint["cfg"],
        "model": get_cfg_section(checkpoint, "model") | dropout,
        "criterion": {"_name": "masked_lm", "tpu": False},  # that of the checkpoint would need the teacher
    }
    return {**checkpoint, "provenance": provenance}
