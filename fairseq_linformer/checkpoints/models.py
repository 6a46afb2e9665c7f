"""Models built from checkpoints, without data."""

from argparse import Namespace
from typing import Any

from fairseq.models.roberta import RobertaModel

from ..models import ARCHITECTURES, LinformerRobertaModel
from ..models.state_dicts import CLASSIFICATION_HEADS, EMBEDDINGS, max_positions, upgrade_names
from ..models.stub_task import StubTask
from .files import get_architecture, get_cfg_section, read_checkpoint
from .to_linformer import from_authors


def open_checkpoint(path) -> dict[str, Any]:
    """Read a checkpoint of ``linformer_roberta``, RoBERTa or the authors' code, with current parameter names."""
    checkpoint = from_authors(read_checkpoint(path))
    return {**checkpoint, "model": upgrade_names(checkpoint["model"])}


def build_model(checkpoint: dict[str, Any], head: str | None = None) -> RobertaModel:
    """Build the model of a checkpoint from ``open_checkpoint`` and load its weights; no data is needed.

    Args:
        head: the classification head to keep; None for none.
    """
    state, n = checkpoint["model"], max_positions(checkpoint["model"])
    if head is None:
        state = {key: value for key, value in state.items() if not key.startswith(CLASSIFICATION_HEADS)}
    args = Namespace(**{**get_cfg_section(checkpoint, "model"), "max_positions": n, "load_checkpoint_heads": False})
    model_class: Any = LinformerRobertaModel if get_architecture(checkpoint) in ARCHITECTURES else RobertaModel
    model: RobertaModel = model_class.build_model(args, StubTask(state[EMBEDDINGS].size(0), n))
    if head is not None:
        if f"{CLASSIFICATION_HEADS}{head}.out_proj.weight_orig" in state:
            raise ValueError(f"head {head!r} must not have spectral normalization, which is not supported")
        dense, out = (state[f"{CLASSIFICATION_HEADS}{head}.{part}.weight"] for part in ("dense", "out_proj"))
        model.register_classification_head(head, num_classes=out.size(0), inner_dim=dense.size(0))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:  # it lists every difference
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"the weights must match the cfg of the checkpoint: {reason}") from None
    return model
