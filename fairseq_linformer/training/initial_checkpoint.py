"""The checkpoint that finetuning starts from, which is converted or resized if necessary."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.authors import from_authors
from ..checkpoints.files import (
    get_architecture,
    get_cfg_section,
    is_fairseq_checkpoint,
    read_checkpoint,
    replace_checkpoint,
)
from ..checkpoints.from_transformers import MODEL, from_transformers
from ..checkpoints.provenance import collect_provenance
from ..checkpoints.resize import resize
from ..checkpoints.transformers_encoder import hash_weights
from ..config import POSITIONS_LIMIT
from ..files import read_json, sha256
from ..models.options import LinformerRobertaConfig
from ..models.roberta_eps import EPS_ARCHITECTURE
from ..models.shapes import EMBEDDINGS, has_projections, head_names, max_positions, upgrade_names
from .job import quote

# Model options that belong to the recipe, to a machine, or to the loading of a checkpoint.
_NOT_INHERITED = """
    dropout attention_dropout activation_dropout pooler_dropout encoder_layerdrop compile checkpoint_activations
    offload_activations min_params_to_wrap load_checkpoint_heads resize_checkpoint compressed shared_kv_compressed
    shared_layer_kv_compressed freeze_compress encoder_layers_to_keep max_positions
""".split()


@dataclass(frozen=True)
class InitialCheckpoint:
    """A checkpoint to finetune, with the overrides that build its model.

    Attributes:
        path: checkpoint that fairseq loads.
        original: checkpoint with dictionary and tokenizer next to it, from which ``path`` was resized or converted from
            the authors' code, if it differs.
        max_positions: n.
        vocab_size: number of embeddings.
        overrides: overrides of fairseq-hydra-train that build the model.
        description: fields of ``model`` in a result: n, options of a Linformer, which are empty for RoBERTa, and
            ``pretraining``, the provenance in the checkpoint with its checksum.
    """

    path: Path
    original: Path
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
        dry_run: write nothing; if ``RUNS/starts`` lacks the resized checkpoint, ``path`` is ``original``.

    Raises:
        ValueError: the checkpoint cannot be read, converted or resized; n is out of range; or a dry run would convert
            a model of ``transformers``.
        OSError: a file cannot be written.
    """
    if n is not None and not 1 <= n <= POSITIONS_LIMIT:
        raise ValueError(f"--max-positions must be between 1 and {POSITIONS_LIMIT:,}, got {n}")
    original, starts = Path(checkpoint).absolute(), Path(runs).absolute() / "starts"
    if not is_fairseq_checkpoint(checkpoint):
        original = _convert(checkpoint, starts, dry_run)
    content, digest = read_checkpoint(original), sha256(original)
    data, path = from_authors(content), original
    if n is not None and n != max_positions(upgrade_names(data["model"])):
        data = resize(data, n)
    state, model = upgrade_names(data["model"]), get_cfg_section(data, "model")
    if data is not content:
        start = starts / f"{original.stem}-{digest[:12]}-n{max_positions(state)}.pt"
        if not start.exists() and not dry_run:
            replace_checkpoint(data, start)  # another process may write the same
        path = start if start.exists() else original
    is_linformer = has_projections(state)
    options = {
        key: value
        for key, value in model.items()
        if key in LinformerRobertaConfig.__dataclass_fields__
        and not key.startswith("_")
        and key not in _NOT_INHERITED
        and value is not None
    }
    name = get_architecture(data)
    if not is_linformer:
        unused = ["projec", "freeze_", "sharing", "local_window"]
        if name != EPS_ARCHITECTURE:
            name = "roberta"
            unused.append("layer_norm_eps")
        options = {key: value for key, value in options.items() if not key.startswith(tuple(unused))}
        options |= {"projected_dim": None, "sharing": None}  # the YAML sets both
    # Without the versions, which are those installed now.
    provenance = {key: value for key, value in collect_provenance(content).items() if key != "versions"}
    return InitialCheckpoint(
        path=path,
        original=original,
        max_positions=max_positions(state),
        vocab_size=state[EMBEDDINGS].size(0),
        overrides=[
            f"model._name={name}",
            *(f"++model.{key}={quote(getattr(value, 'value', value))}" for key, value in sorted(options.items())),
        ],
        description={
            "max_positions": max_positions(state),
            "projected_dim": str(options["projected_dim"]) if is_linformer else "",
            "sharing": str(options["sharing"]) if is_linformer else "",
            "projection": str(options.get("projection", "linear")) if is_linformer else "",
            "pretraining": {**provenance, "sha256": digest, "heads": head_names(state)},
        },
    )


def _convert(name: str, starts: Path, dry_run: bool) -> Path:
    """The checkpoint ``STARTS/NAME-CHECKSUM/model.pt`` of a model of ``transformers``, converted unless it exists."""
    folder = starts / f"{Path(name).name}-{hash_weights(name)[:12]}"
    config = Path(name, "config.json")
    if folder.exists():
        return folder / MODEL
    if dry_run:
        raise ValueError(f"{name} is not converted, and --dry-run writes nothing; run without it, or convert it first")
    if config.is_file() and read_json(config).get("model_type") == "linformer":
        from ..checkpoints.huggingface import from_huggingface  # imports transformers, which takes seconds

        from_huggingface(name, folder)
    else:
        from_transformers(name, folder, arch="roberta")
    return folder / MODEL
