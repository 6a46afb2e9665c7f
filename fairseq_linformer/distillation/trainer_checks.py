"""Checks that need fairseq's trainer: of the student before the first update, and of the teacher before resuming.

Without them, a student of another shape fails in the first update, and training resumes with any teacher: fairseq
stores the task's state, but does not compare it.
"""

from functools import wraps
from pathlib import Path
from typing import Any

from fairseq.trainer import Trainer

from ..models.safe_loading import load_weights_only
from .criterion import TEACHER_KEY, DistillationCriterion


def patch_trainer() -> None:
    """Let fairseq's trainer compare student and teacher when it is built, and the teacher when it resumes."""
    init, load_checkpoint = Trainer.__init__, Trainer.load_checkpoint

    @wraps(init)
    def init_and_check(trainer: Any, *args: Any, **kwargs: Any) -> None:
        init(trainer, *args, **kwargs)
        if isinstance(criterion := trainer.get_criterion(), DistillationCriterion):
            criterion.choose_weights(trainer.get_model())

    @wraps(load_checkpoint)
    def check_and_load(trainer: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        criterion = trainer.get_criterion()
        if isinstance(criterion, DistillationCriterion) and not reset_optimizer and Path(filename).is_file():
            check_same_teacher(criterion, filename)
        return load_checkpoint(trainer, filename, reset_optimizer, *args, **kwargs)

    Trainer.__init__, Trainer.load_checkpoint = init_and_check, check_and_load


def check_same_teacher(criterion: DistillationCriterion, checkpoint: str) -> None:
    """Raise ValueError if a checkpoint was distilled from another teacher."""
    state = load_weights_only(checkpoint, mmap=True)
    stored = (state.get("task_state") or {}).get(TEACHER_KEY) if isinstance(state, dict) else None
    if stored not in (None, criterion.teacher.sha256):
        raise ValueError(
            f"teacher must be the one that {checkpoint} was distilled from (SHA-256 {str(stored)[:12]}), got "
            f"{criterion.teacher.path} (SHA-256 {criterion.teacher.sha256[:12]}); to change the teacher, pass "
            "--reset-optimizer, or pass this checkpoint as --finetune-from-model with another --save-dir"
        )
