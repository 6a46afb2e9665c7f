"""The teacher: a frozen model that is neither trained nor stored with its student."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.files import NEW_LM_HEAD
from ..checkpoints.models import build_model, open_checkpoint
from ..corpus.tokenizer_files import DICTIONARY
from ..files import sha256
from ..models.dictionaries import describe_difference, read_masked_lm_dictionary
from ..models.shapes import CLASSIFICATION_HEADS, EMBEDDINGS, count_layers, head_names, max_positions


class Teacher:
    """A fairseq model in eval mode, without gradients; on a GPU in half precision, on a CPU under the caller's
    autocast.

    It is not a module, so that its criterion neither trains nor saves its parameters.

    Args:
        path: checkpoint of RoBERTa or a Linformer.
        head: classification head to keep; None for none.
        num_classes: its number of classes.
        name: name of the teacher in messages; None for the path.

    Attributes:
        sha256: checksum of the file.
        vocab_size, max_positions, layers, width: V, n, L and d.
        has_trained_lm_head: False if it was converted from an encoder without masked LM head.

    Raises:
        ValueError: the file is missing or is not such a checkpoint, a weight is NaN or infinite, or it has no such head
            of so many classes.
    """

    def __init__(self, path: str, head: str | None = None, num_classes: int | None = None, name: str | None = None):
        if not Path(path).is_file():
            raise ValueError(f"teacher must be a fairseq checkpoint, got {path}, which is not a file")
        checkpoint = open_checkpoint(path)
        state = checkpoint["model"]
        self.name = name or path
        if damaged := [
            key for key, weight in state.items() if isinstance(weight, Tensor) and not weight.isfinite().all()
        ]:
            raise ValueError(f"the weights of the teacher {self.name} must be finite, but {damaged[0]} is not")
        if head is not None and head not in head_names(state):
            known = ", ".join(head_names(state)) or "no classification head"
            raise ValueError(f"teacher {self.name} must have the head {head!r}, but it has {known}")
        if head is not None:
            classes = len(state[f"{CLASSIFICATION_HEADS}{head}.out_proj.bias"])
            if classes != num_classes:
                raise ValueError(
                    f"the head {head!r} of the teacher {self.name} must have {num_classes} classes, got {classes}"
                )
        self.path, self.sha256 = Path(path), sha256(path)
        self.vocab_size, self.width = state[EMBEDDINGS].shape
        self.max_positions, self.layers = max_positions(state), count_layers(state)
        imported = checkpoint.get("provenance", {}).get("imported") or {}
        self.has_trained_lm_head = imported.get("lm_head") != NEW_LM_HEAD
        self._model = build_model(checkpoint, head).eval().requires_grad_(False)

    def check_task(self, dictionary: Any, n: int, data: str) -> None:
        """Check that inputs of a task fit the teacher.

        Args:
            dictionary: fairseq's dictionary of the task.
            n: longest input of the task.
            data: its folder, for messages.

        Raises:
            ValueError: the dictionary differs, or n exceeds the teacher's ``max_positions``.
        """
        if len(dictionary) != self.vocab_size:
            raise ValueError(
                f"the dictionary of {data} must be that of the teacher {self.name} ({self.vocab_size:,} entries), got "
                f"{len(dictionary):,}"
            )
        own = self.path.parent / DICTIONARY
        if own.is_file() and (difference := describe_difference(read_masked_lm_dictionary(own), dictionary)):
            raise ValueError(f"the dictionary of {data} must equal that of the teacher {self.name}; {difference}")
        if n > self.max_positions:
            raise ValueError(f"the teacher {self.name} must have at least n = {n} positions, got {self.max_positions}")

    @torch.no_grad()
    def __call__(self, tokens: Tensor, **options: Any) -> tuple[Tensor, dict[str, Any]]:
        """The outputs of ``RobertaModel.forward``, on the device of ``tokens``."""
        parameter = next(self._model.parameters())
        if parameter.device != tokens.device:
            dtype = torch.float32
            if tokens.is_cuda:
                is_native = torch.cuda.is_bf16_supported(including_emulation=False)
                dtype = torch.bfloat16 if is_native else torch.float16
            self._model.to(tokens.device, dtype)
        output: tuple[Tensor, dict[str, Any]] = self._model(tokens, **options)
        return output
