"""The checkpoint that finetuning starts from, which is converted or resized if necessary."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..checkpoints.authors import from_authors
from ..checkpoints.files import get_architecture, get_cfg_section, read_checkpoint, replace_checkpoint
from ..checkpoints.provenance import collect_provenance
from ..checkpoints.resize import resize
from ..config import POSITIONS_LIMIT
from ..corpus.tokenizer_files import DICTIONARY
from ..files import sha256
from ..models.dictionaries import check_dictionary
from ..models.options import LinformerRobertaConfig
from ..models.roberta_eps import EPS_ARCHITECTURE
from ..models.shapes import EMBEDDINGS, group_projections, head_names, max_positions, upgrade_names
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
        original: the user's checkpoint, from which ``path`` was converted or resized, if it differs.
        max_positions: n.
        projected_dim, sharing, projection: options of the model; empty for RoBERTa.
        vocab_size: number of embeddings.
        overrides: overrides of fairseq-hydra-train that build the model.
        provenance: provenance of the pretraining, as recorded in the checkpoint.
        pretraining_data: data folders of the pretraining, which may not exist on this machine.
    """

    path: Path
    original: Path
    max_positions: int
    projected_dim: str
    sharing: str
    projection: str
    vocab_size: int
    overrides: list[str]
    provenance: dict[str, Any]
    pretraining_data: list[Path]

    def check_data(self, folder: Path) -> None:
        """Raise ValueError if the dictionary in a task's ``folder`` is not that of the pretraining."""
        same_as = [parent / DICTIONARY for parent in (self.original.parent, *self.pretraining_data)]
        path = folder / "input0" / DICTIONARY
        check_dictionary(path, self.vocab_size, self.original, "prepare the data again", same_as=same_as)


def open_initial_checkpoint(checkpoint, runs, n: int | None = None, dry_run: bool = False) -> InitialCheckpoint:
    """Read a checkpoint. If it must be converted or resized, the new one is stored in ``RUNS/starts`` and reused.

    Args:
        checkpoint: path of the checkpoint.
        runs: folder that contains the run folders.
        n: n to finetune with; None for the checkpoint's.
        dry_run: write nothing; if ``RUNS/starts`` lacks the new checkpoint, ``path`` is that of ``checkpoint``.

    Raises:
        ValueError: as ``read_checkpoint`` and ``resize``; or n is out of range.
        OSError: a file cannot be written.
    """
    if n is not None and not 1 <= n <= POSITIONS_LIMIT:
        raise ValueError(f"--max-positions must be between 1 and {POSITIONS_LIMIT:,}, got {n}")
    original = Path(checkpoint).absolute()
    stat = original.stat() if original.is_file() else None
    return _open_version(original, Path(runs).absolute(), n, dry_run, stat and (stat.st_size, stat.st_mtime_ns))


@lru_cache
def _open_version(original: Path, runs: Path, n: int | None, dry_run: bool, version: Any) -> InitialCheckpoint:
    """``open_initial_checkpoint``, cached by size and date of the file: all runs of a grid open the same one."""
    content, digest = read_checkpoint(original), sha256(original)
    data, path = from_authors(content), original
    if n is not None and n != max_positions(upgrade_names(data["model"])):
        data = resize(data, n)
    state, model = upgrade_names(data["model"]), get_cfg_section(data, "model")
    if data is not content:
        path = runs / "starts" / f"{original.stem}-{digest[:12]}-n{max_positions(state)}.pt"
        if not path.exists():
            if dry_run:
                path = original
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_checkpoint(data, path)  # another process may write the same
    is_linformer = bool(group_projections(state))
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
        unused = ["projec", "freeze_", "sharing", "window_sizes", "local_window"]
        if name != EPS_ARCHITECTURE:
            name = "roberta"
            unused.append("layer_norm_eps")
        options = {key: value for key, value in options.items() if not key.startswith(tuple(unused))}
        options |= {"projected_dim": None, "sharing": None}  # the YAML sets both
    folders = str(get_cfg_section(data, "task").get("data") or "").split(":")
    # Without the versions, which are those installed now.
    provenance = {key: value for key, value in collect_provenance(content).items() if key != "versions"}
    return InitialCheckpoint(
        path=path,
        original=original,
        max_positions=max_positions(state),
        projected_dim=str(options["projected_dim"]) if is_linformer else "",
        sharing=str(options["sharing"]) if is_linformer else "",
        projection=str(options.get("projection", "linear")) if is_linformer else "",
        vocab_size=state[EMBEDDINGS].size(0),
        overrides=[
            f"model._name={name}",
            *(f"++model.{key}={quote(getattr(value, 'value', value))}" for key, value in sorted(options.items())),
        ],
        provenance={**provenance, "sha256": digest, "heads": head_names(state)},
        pretraining_data=[Path(folder).absolute() for folder in folders if folder],
    )
