"""What a command's CHECKPOINT is: a fairseq checkpoint, a model of ``transformers``, or an ONNX folder."""

import os
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ..data.tokenizer_files import DICTIONARY
from ..files import read_json
from .transformers_loading import WEIGHTS

MODEL = "model.pt"
"""File name of a checkpoint in a folder that ``convert`` wrote."""
BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
"""File names of fairseq."""
RESULT = "result.json"
"""File in the run folder of ``finetune``; it names the checkpoint that it scored."""
ONNX_GRAPH, ONNX_INT8_GRAPH = "onnx/model.onnx", "onnx/model_quantized.onnx"
"""Files of the graph in a folder that ``export --onnx`` wrote, named as on the hub."""


class Kind(StrEnum):
    """Kinds of models, as errors name them."""

    FAIRSEQ = "a fairseq checkpoint"
    TRANSFORMERS = "a model of transformers"
    ONNX = "an ONNX folder"


_INSTEAD = {Kind.TRANSFORMERS: "`convert` makes a checkpoint of it", Kind.ONNX: "pass what it was exported from"}
"""What to do with a model of a kind that a command does not take."""


class ModelPath(NamedTuple):
    """Kind and path of a model; the path is that of a file or folder, or a name on the hub."""

    kind: Kind
    path: str

    def check_kind(self, *kinds: Kind) -> None:
        """Raise ValueError unless it is one of these kinds."""
        if self.kind not in kinds:
            raise ValueError(f"{self.path} must be {' or '.join(kinds)}, got {self.kind}; {_INSTEAD[self.kind]}")


def identify(checkpoint) -> ModelPath:
    """Find out what a command's CHECKPOINT is.

    A file is a fairseq checkpoint. A run folder means the checkpoint that ``finetune`` scored, else the best, else the
    last one; a folder that ``convert`` wrote means its ``MODEL``. Other folders are of ``transformers``, such as those
    that ``export`` writes, or if they have a graph and no weights, of ONNX. Anything else is a name on the hub.

    Raises:
        ValueError: it is none of these.
    """
    folder = Path(checkpoint)
    found = [folder / part / name for part in ("checkpoints", "") for name in (BEST, LAST)] + [folder / MODEL]
    if (folder / RESULT).is_file() and (folder / "checkpoints").is_dir():
        found = [folder / read_json(folder / RESULT)["checkpoint"]]
    path = next(filter(Path.is_file, found), folder)
    if path.is_file():
        if path.name in (WEIGHTS, "config.json"):
            raise ValueError(f"{path} is a file of a model; pass its folder")
        return ModelPath(Kind.FAIRSEQ, str(path))
    if path.suffix == ".pt":
        raise ValueError(f"{path} is not a file; expected {Kind.FAIRSEQ}")
    if not folder.is_dir():
        if len(folder.parts) > 2 or os.path.isdir(os.path.dirname(checkpoint)):
            raise ValueError(f"{checkpoint} is not a folder, nor a name on the hub")
        return ModelPath(Kind.TRANSFORMERS, str(checkpoint))
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{checkpoint} has neither a checkpoint nor a model of transformers, with config.json{_find_hint(folder)}"
        )
    is_graph = find_graph(folder) is not None and not any(folder.glob("*.safetensors*"))
    return ModelPath(Kind.ONNX if is_graph else Kind.TRANSFORMERS, str(checkpoint))


def _find_hint(folder: Path) -> str:
    """What a folder without a model is, if it is known."""
    if runs := sorted(path.parent.parent for path in folder.glob(f"*/checkpoints/{LAST}")):
        return f"; choose one of its runs, such as {runs[0]}"
    is_data = any(folder.glob(DICTIONARY)) or any(folder.glob(f"*/{DICTIONARY}"))
    return "; it is prepared data" if is_data else ""


def find_graph(folder: Path) -> Path | None:
    """The graph in an ONNX folder; None if it has none."""
    paths = (folder / ONNX_GRAPH, folder / ONNX_INT8_GRAPH)
    return next(filter(Path.is_file, paths), None)
