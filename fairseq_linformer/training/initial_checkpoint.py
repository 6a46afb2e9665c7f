"""The checkpoint that finetuning starts from; a model of ``transformers`` is converted first."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.convert import read_model
from ..checkpoints.files import find_companions, get_architecture, get_cfg_section, read_checkpoint, write_model
from ..checkpoints.identify import MODEL, Kind, ModelPath
from ..checkpoints.provenance import read_origins
from ..checkpoints.to_linformer import from_authors
from ..checkpoints.transformers_loading import hash_weights, load_config
from ..config import PROJECTION_OPTIONS
from ..files import lock, new_folder, sha256
from ..models.options import ARCHITECTURES, LinformerRobertaConfig
from ..models.state_dicts import EMBEDDINGS, has_projections, head_names, max_positions, upgrade_names
from .job import quote

# Model options that belong to the recipe, to a machine, or to the loading of a checkpoint.
_NOT_INHERITED = """
    dropout attention_dropout activation_dropout pooler_dropout encoder_layerdrop compile checkpoint_activations
    offload_activations min_params_to_wrap load_checkpoint_heads compressed shared_kv_compressed
    shared_layer_kv_compressed freeze_compress max_positions
""".split()


@dataclass(frozen=True)
class InitialCheckpoint:
    """A checkpoint to finetune, with the overrides that build its model.

    Attributes:
        path: checkpoint that fairseq loads.
        companions: folder with its dictionary and tokenizer.
        overrides: overrides of fairseq-hydra-train that build the model.
        description: fields of ``model`` in a result: n, options of a Linformer, which are empty for RoBERTa, and
            ``pretraining``, where the weights come from and the checksum of the checkpoint.
    """

    path: Path
    companions: Path
    max_positions: int
    vocab_size: int
    overrides: list[str]
    description: dict[str, Any]


def open_initial_checkpoint(checkpoint: ModelPath, runs, dry_run: bool = False) -> InitialCheckpoint:
    """Read a checkpoint.

    Args:
        checkpoint: a fairseq checkpoint, also of the authors' code; or a model of ``transformers``, which is converted
            to ``RUNS/starts/NAME-CHECKSUM`` unless it is there.
        runs: folder that contains the run folders.
        dry_run: write nothing; a model of ``transformers`` must have been converted before.
    """
    path = Path(checkpoint.path).absolute()
    if checkpoint.kind is not Kind.FAIRSEQ:
        path = _convert(checkpoint, Path(runs).absolute() / "starts", dry_run)
    content = read_checkpoint(path)
    converted = from_authors(content)  # for the options of the model; it loads the authors' checkpoints itself
    state = upgrade_names(converted["model"])
    name, options = _model_options(converted, is_linformer=has_projections(state))
    described = {key: str(options[key] or "") for key in ("projected_dim", "sharing")}
    projection = str(options.get("projection", "linear")) if described["sharing"] else ""
    return InitialCheckpoint(
        path=path,
        companions=find_companions(path, content),
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
            "pretraining": {**read_origins(content), "sha256": sha256(path), "heads": head_names(state)},
        },
    )


def read_width(checkpoint: ModelPath) -> int:
    """The width d of a fairseq checkpoint, or of a model of ``transformers``."""
    if checkpoint.kind is Kind.FAIRSEQ:
        return upgrade_names(read_checkpoint(checkpoint.path)["model"])[EMBEDDINGS].size(1)
    return int(load_config(checkpoint.path).hidden_size)


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
        name, unused = "roberta", (*PROJECTION_OPTIONS, "projection", "layer_norm_eps")
        options = {key: value for key, value in options.items() if key not in unused}
    return name, {**options, "projected_dim": None, "sharing": None}  # the YAML sets both


def _convert(model: ModelPath, starts: Path, dry_run: bool) -> Path:
    """The checkpoint ``STARTS/NAME-CHECKSUM/model.pt`` of a model of ``transformers``, converted unless it exists."""
    folder = starts / f"{Path(model.path).name}-{hash_weights(model.path)[:12]}"
    if folder.exists():
        return folder / MODEL
    if dry_run:
        raise ValueError(
            f"{model.path} is not converted, and --dry-run writes nothing; run without it, or convert it first"
        )
    starts.mkdir(parents=True, exist_ok=True)
    with lock(starts):  # another process may convert it now
        if not folder.exists():
            with new_folder(folder) as new:
                write_model(new, *read_model(model))
    return folder / MODEL
