"""Distillation of a Transformer into a Linformer. Importing it registers the criterion with fairseq, and adds checks to
its trainer."""

from .criterion import DistillationConfig, DistillationCriterion
from .teacher import Teacher
from .trainer_checks import patch_trainer

patch_trainer()

__all__ = ["DistillationConfig", "DistillationCriterion", "Teacher"]
