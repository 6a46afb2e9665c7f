"""The checkpoint that finetuning starts from: ours, the authors', RoBERTa's, at its own length or at another."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..checkpoints.authors import from_authors
from ..checkpoints.files import architecture, node, read_checkpoint, write_checkpoint
from ..checkpoints.provenance import collect
from ..checkpoints.resize import resize
from ..evaluation.classifier import DICTIONARY, check_dictionary
from ..files import sha256
from ..launching.training import quoted
from ..models.options import LinformerRobertaConfig
from ..models.shapes import EMBEDDINGS, current_names, head_names, max_positions, projections

# Of the model's options, those of the recipe, of one machine, and those that say how to load a checkpoint.
_NOT_OF_THE_MODEL = {
    "dropout", "attention_dropout", "activation_dropout", "pooler_dropout", "encoder_layerdrop", "compile",
    "checkpoint_activations", "offload_activations", "min_params_to_wrap", "load_checkpoint_heads",
    "resize_checkpoint", "compressed", "shared_kv_compressed", "shared_layer_kv_compressed", "freeze_compress",
    "encoder_layers_to_keep", "max_positions",
}  # fmt: skip
MOST_POSITIONS = 1 << 20


@dataclass(frozen=True)
class Start:
    """
    Attributes:
        path: of the checkpoint that fairseq will load.
        given: the original, if that had to be converted or resized.
        max_positions: n.
        projected_dim, sharing, projection: its options; empty for RoBERTa.
        entries: of its embeddings.
        overrides: of fairseq-hydra-train, that make its model.
        provenance: how it was pretrained, as far as it says.
        pretraining_data: folders that it names; they need not be here.
    """

    path: Path
    given: Path
    max_positions: int
    projected_dim: str
    sharing: str
    projection: str
    entries: int
    overrides: List[str]
    provenance: Dict[str, Any]
    pretraining_data: List[Path]

    def check_data(self, folder) -> None:
        """Raise ValueError if the tokens in ``folder`` are of another dictionary than that of the pretraining."""
        path = Path(folder) / "input0" / DICTIONARY
        own = [place / DICTIONARY for place in (self.given.parent, *self.pretraining_data)]
        check_dictionary(path, self.entries, self.given, "prepare the data again", same_as=own)


def open_start(checkpoint, runs, n: Optional[int] = None) -> Start:
    """
    Args:
        checkpoint: path.
        runs: a folder; a checkpoint that has to be converted or resized is written into ``starts`` in it, once.
        n: positions to finetune with; None for those of the checkpoint.

    Raises:
        ValueError: it is no checkpoint of an encoder, or cannot be resized.
        OSError: a file cannot be written.
    """
    if n is not None and not 1 <= n <= MOST_POSITIONS:
        raise ValueError(f"--max-positions is {n}; it must be between 1 and {MOST_POSITIONS:,}")
    given = Path(checkpoint).absolute()
    stat = given.stat() if given.is_file() else None
    return _opened(given, Path(runs).absolute(), n, stat and (stat.st_size, stat.st_mtime_ns))


@lru_cache
def _opened(given: Path, runs: Path, n: Optional[int], version: Any) -> Start:
    """Once per version of a file: a grid over tasks starts from one file again and again."""
    original, digest = read_checkpoint(given), sha256(given)
    data, path = from_authors(original), given
    if n is not None and n != max_positions(current_names(data["model"])):
        data = resize(data, n)
    state, model = current_names(data["model"]), node(data, "model")
    if data is not original:
        path = runs / "starts" / f"{given.stem}-{digest[:12]}-n{max_positions(state)}.pt"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_checkpoint(data, path)
    linear = bool(projections(state))
    options = {
        key: value
        for key, value in model.items()
        if key in LinformerRobertaConfig.__dataclass_fields__
        and not key.startswith("_") and key not in _NOT_OF_THE_MODEL and value is not None
    }  # fmt: skip
    if not linear:
        options = {key: value for key, value in options.items() if not key.startswith(("projec", "freeze_", "sharing"))}
        options |= {"projected_dim": None, "sharing": None}  # the YAML has both
    name = architecture(data) if linear else "roberta"
    pretraining = str(node(data, "task").get("data") or "").split(":")
    provenance = {key: value for key, value in collect(original).items() if key != "versions"}  # those are of today
    return Start(
        path=path,
        given=given,
        max_positions=max_positions(state),
        projected_dim=str(options["projected_dim"]) if linear else "",
        sharing=str(options["sharing"]) if linear else "",
        projection=str(options.get("projection", "linear")) if linear else "",
        entries=state[EMBEDDINGS].size(0),
        overrides=[f"model._name={name}", *(f"++model.{key}={_text(value)}" for key, value in sorted(options.items()))],
        provenance={**provenance, "sha256": digest, "heads": head_names(state)},
        pretraining_data=[Path(part).absolute() for part in pretraining if part],
    )


def _text(value: Any) -> str:
    return quoted(getattr(value, "value", value))
