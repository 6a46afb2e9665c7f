"""``from_pretrained`` returns fairseq's RoBERTa hub interface; tests/huggingface compares it with exported models."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ..checkpoint_fixtures import hub
from ..fairseq_commands import TINY, finetune

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_loading_is_quiet(masked_lm):
    """A process that only loads a model prints nothing; fairseq would log its whole configuration."""
    code = f"""
from fairseq_linformer.models import LinformerRobertaModel
LinformerRobertaModel.from_pretrained({str(masked_lm)!r}, "checkpoint_last.pt")
"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_heads_are_saved_and_loaded(class_data, tmp_path):
    finetune(class_data, tmp_path, *TINY, "--classification-head-name", "odd")
    model = hub(tmp_path, class_data, bpe="characters")
    assert model.predict("odd", torch.tensor([0, 5, 6, 2])).shape == (1, 2)
