"""The checkpoint that finetuning starts from: ours, the authors', RoBERTa's, at the length it has or at another."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..checkpoints.authors import from_authors
from ..checkpoints.files import architecture, node, read_checkpoint, write_checkpoint
from ..checkpoints.provenance import collect
from ..checkpoints.resize import resize
from ..evaluation.classifier import DICTIONARY, check_dictionary, difference, read_dictionary
from ..files import sha256
from ..launching.training import quoted
from ..models.options import LinformerRobertaConfig
from ..models.shapes import EMBEDDINGS, current_names, head_names, max_positions, projections

# Of the model's options, what the recipe says, what is about one machine, and what says how to load a checkpoint.
_NOT_OF_THE_MODEL = {
    "dropout", "attention_dropout", "activation_dropout", "pooler_dropout", "encoder_layerdrop", "compile", "checkpoint_activations", "offload_activations", "min_params_to_wrap", "load_checkpoint_heads", "resize_checkpoint",
    "compressed", "shared_kv_compressed", "shared_layer_kv_compressed", "freeze_compress", "encoder_layers_to_keep", "max_positions",
}  # fmt: skip


MOST_POSITIONS = 1 << 20


@dataclass(frozen=True)
class Start:
    """
    Attributes:
        path: of the checkpoint that fairseq will load.
        given: the one that was given, where that had to be converted or resized.
        max_positions: n.
        projected_dim, sharing, projection: as its options say; empty for RoBERTa.
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
        """
        Raises:
            ValueError: the numbers in ``folder`` are of another dictionary than the one that this was pretrained with.
        """
        path = Path(folder) / "input0" / DICTIONARY
        check_dictionary(path, self.entries, self.given, "the data is to be prepared anew")
        for place in (self.given.parent, *self.pretraining_data):
            if (place / DICTIONARY).is_file() and (at := difference(read_dictionary(place / DICTIONARY), read_dictionary(path))):
                raise ValueError(f"{path} is not the dictionary that {self.given} was pretrained with: {at}, in {place / DICTIONARY}")


def open_start(checkpoint, runs, n: Optional[int] = None) -> Start:
    """
    Args:
        checkpoint: path.
        runs: a folder; what has to be converted or resized is written into ``starts`` in it, once.
        n: positions to finetune with; None for those of the checkpoint.

    Raises:
        ValueError: it is no checkpoint of an encoder, or cannot be resized; one sentence.
        OSError: a file cannot be written.
    """
    if n is not None and not 1 <= n <= MOST_POSITIONS:
        raise ValueError(f"--max-positions is {n}; it must be between 1 and {MOST_POSITIONS:,}")
    given = Path(checkpoint).absolute()
    there = given.stat() if given.is_file() else None
    return _opened(given, Path(runs).absolute(), n, there and (there.st_size, there.st_mtime_ns))


@lru_cache
def _opened(given: Path, runs: Path, n: Optional[int], as_it_was: Any) -> Start:
    """Once for a file that stays as it is: a grid over tasks starts from one again and again."""
    original, digest = read_checkpoint(given), sha256(given)
    data, path = from_authors(original), given
    if n is not None and n != max_positions(current_names(data["model"])):
        data = resize(data, n)
    if data is not original:
        path = runs / "starts" / f"{given.stem}-{digest[:12]}-n{max_positions(current_names(data['model']))}.pt"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_checkpoint(data, path)
    state, model = current_names(data["model"]), node(data, "model")
    linear = bool(projections(state))
    known = {key: value for key, value in model.items() if key in LinformerRobertaConfig.__dataclass_fields__ and not key.startswith("_")}
    options = {key: value for key, value in known.items() if key not in _NOT_OF_THE_MODEL and value is not None}
    if not linear:
        options = {key: value for key, value in options.items() if not key.startswith(("projec", "freeze_")) and key != "sharing"}
        options |= {"projected_dim": None, "sharing": None}  # the YAML has both
    name = architecture(data) if linear else "roberta"
    pretraining = str(node(data, "task").get("data") or "").split(":")
    provenance = {key: value for key, value in collect(original).items() if key != "versions"}  # they would be those of today
    return Start(
        path=path,
        given=given,
        max_positions=max_positions(state),
        projected_dim=str(options["projected_dim"]) if linear else "",
        sharing=str(options["sharing"]) if linear else "",
        projection=str(options.get("projection", "linear")) if linear else "",
        entries=state[EMBEDDINGS].size(0),
        overrides=[f"model._name={name}", *(f"++model.{key}={_written(value)}" for key, value in sorted(options.items()))],
        provenance={**provenance, "sha256": digest, "heads": head_names(state)},
        pretraining_data=[Path(part).absolute() for part in pretraining if part],
    )


def _written(value: Any) -> str:
    return quoted(getattr(value, "value", value))

