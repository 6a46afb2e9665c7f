"""The checkpoint that finetuning starts from, which is converted or resized if necessary."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.convert import read_source
from ..checkpoints.files import (
    MODEL,
    find_companions,
    get_architecture,
    get_cfg_section,
    is_fairseq_checkpoint,
    read_checkpoint,
    replace_checkpoint,
    write_model,
)
from ..checkpoints.provenance import read_origins
from ..checkpoints.to_linformer import from_authors, resize
from ..checkpoints.transformers_encoder import hash_weights
from ..checkpoints.transformers_loading import load_from_transformers
from ..files import new_folder, sha256
from ..models.options import ARCHITECTURES, LinformerRobertaConfig
from ..models.state_dicts import EMBEDDINGS, has_projections, head_names, max_positions, upgrade_names
from .job import quote

# Model options that belong to the recipe, to a machine, or to the loading of a checkpoint.
_NOT_INHERITED = """
    dropout attention_dropout activation_dropout pooler_dropout encoder_layerdrop compile checkpoint_activations
    offload_activations min_params_to_wrap load_checkpoint_heads compressed shared_kv_compressed
    shared_layer_kv_compressed freeze_compress encoder_layers_to_keep max_positions
""".split()


@dataclass(frozen=True)
class InitialCheckpoint:
    """A checkpoint to finetune, with the overrides that build its model.

    Attributes:
        path: checkpoint that fairseq loads.
        original: checkpoint from which ``path`` was resized or converted from the authors' code, if it differs.
        companions: folder with its dictionary and tokenizer.
        max_positions: n.
        vocab_size: number of embeddings.
        overrides: overrides of fairseq-hydra-train that build the model.
        description: fields of ``model`` in a result: n, options of a Linformer, which are empty for RoBERTa, and
            ``pretraining``, where the weights come from and the checksum of the checkpoint.
    """

    path: Path
    original: Path
    companions: Path
    max_positions: int
    vocab_size: int
    overrides: list[str]
    description: dict[str, Any]


def open_initial_checkpoint(checkpoint, runs, n: int | None = None, dry_run: bool = False) -> InitialCheckpoint:
    """Read a checkpoint. If it must be converted or resized, the new one is stored in ``RUNS/starts`` and reused.

    Args:
        checkpoint: path of a fairseq checkpoint, or folder or hub name of a model of ``transformers``.
        runs: folder that contains the run folders.
        n: n to finetune with; None for the checkpoint's.
        dry_run: write nothing; if ``RUNS/starts`` lacks the resized checkpoint, ``path`` is ``original``. A model of
            ``transformers`` must be there already.
    """
    original, starts = Path(checkpoint).absolute(), Path(runs).absolute() / "starts"
    if not is_fairseq_checkpoint(checkpoint):
        original = _convert(checkpoint, starts, dry_run)
    content, digest = read_checkpoint(original), sha256(original)
    data, path = from_authors(content), original
    if n is not None and n != max_positions(upgrade_names(data["model"])):
        data = resize(data, n)
    state = upgrade_names(data["model"])
    if data is not content:
        start = starts / f"{original.stem}-{digest[:12]}-n{max_positions(state)}.pt"
        if not start.exists() and not dry_run:
            replace_checkpoint(data, start)  # another process may write the same
        path = start if start.exists() else original
    name, options = _model_options(data, is_linformer=has_projections(state))
    described = {key: str(options[key] or "") for key in ("projected_dim", "sharing")}
    projection = str(options.get("projection", "linear")) if described["sharing"] else ""
    return InitialCheckpoint(
        path=path,
        original=original,
        companions=find_companions(original, content),
        max_positions=max_positions(state),
        vocab_size=state[EMBEDDINGS].size(0),
        overrides=[
            f"model._name={name}",
            *(f"++model.{key}={quote(getattr(value, 'value', value))}" for key, value in sorted(options.items())),
        ],
        description={
            "max_positions": max_positions(state),
            **described,
            "projection": projection,
            "pretraining": {**read_origins(content), "sha256": digest, "heads": head_names(state)},
        },
    )


def read_width(checkpoint: str) -> int:
    """The width d of a fairseq checkpoint, or of a model of ``transformers``."""
    if is_fairseq_checkpoint(checkpoint):
        return upgrade_names(read_checkpoint(checkpoint)["model"])[EMBEDDINGS].size(1)
    from transformers import AutoConfig

    from .. import huggingface  # noqa: F401  registers the Linformer with AutoConfig

    width: int = load_from_transformers(AutoConfig, checkpoint).hidden_size
    return width


def _model_options(checkpoint: dict[str, Any], is_linformer: bool) -> tuple[str, dict[str, Any]]:
    """The architecture of a checkpoint, and those of its model's options that a finetuned model inherits."""
    name = get_architecture(checkpoint)
    options = {
        key: value
        for key, value in get_cfg_section(checkpoint, "model").items()
        if key in LinformerRobertaConfig.__dataclass_fields__
        and not key.startswith("_")
        and key not in _NOT_INHERITED
        and value is not None
    }
    if is_linformer:
        return name, options
    if name not in ARCHITECTURES:
        name, unused = "roberta", ("projec", "freeze_", "sharing", "local_window", "layer_norm_eps")
        options = {key: value for key, value in options.items() if not key.startswith(unused)}
    return name, {**options, "projected_dim": None, "sharing": None}  # the YAML sets both


def _convert(name: str, starts: Path, dry_run: bool) -> Path:
    """The checkpoint ``STARTS/NAME-CHECKSUM/model.pt`` of a model of ``transformers``, converted unless it exists."""
    folder = starts / f"{Path(name).name}-{hash_weights(name)[:12]}"
    if folder.exists():
        return folder / MODEL
    if dry_run:
        raise ValueError(f"{name} is not converted, and --dry-run writes nothing; run without it, or convert it first")
    with new_folder(folder) as new:
        write_model(new, *read_source(name))
    return folder / MODEL
