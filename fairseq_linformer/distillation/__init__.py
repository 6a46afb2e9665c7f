"""Distillation of a Transformer into a Linformer. Importing it registers the criterion, and adds checks to fairseq's
trainer."""

from .criterion import DistillationConfig, DistillationCriterion
from .teacher import Teacher
from .trainer_checks import patch_trainer

patch_trainer()

__all__ = ["DistillationConfig", "DistillationCriterion", "Teacher"]
