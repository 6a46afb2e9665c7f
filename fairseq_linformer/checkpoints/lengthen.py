"""Make a checkpoint for inputs of n positions into one for ``factor * n``.

    python -m fairseq_linformer.checkpoints.lengthen checkpoint_best.pt long.pt --factor 8

The new model is ready to be trained on (``--finetune-from-model long.pt``): position
embeddings are repeated, and E and F stand ``factor`` times along the diagonal, so that
every stretch of n positions is projected as before and k grows with n. Works for
``linformer_roberta`` and for fairseq's RoBERTa, which has no E and F.
"""

import argparse
import os
import pickle
from typing import Any, Dict

import torch
from torch import Tensor

from ..files import atomic

PADDING_IDX = 1
"""What every fairseq dictionary pads with."""
_PROJECTIONS = (".E.weight", ".F.weight")
_POSITIONS = "sentence_encoder.embed_positions.weight"


def lengthen(checkpoint: Dict[str, Any], factor: int, padding_idx: int = PADDING_IDX) -> Dict[str, Any]:
    """A new checkpoint for inputs ``factor`` times as long; the old one is not changed.

    Args:
        checkpoint: as fairseq saves it: ``model``, ``cfg``, ...
        factor: 2 or more.
        padding_idx: position embeddings of real tokens start behind this row.

    Returns:
        The checkpoint without its optimizer state, which fits no longer.

    Raises:
        ValueError: factor is below 2, or this is no checkpoint of such a model.
    """
    if factor < 2:
        raise ValueError(f"factor is {factor}; it must be at least 2")
    model = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(model, dict) or not any(key.endswith(_POSITIONS) for key in model):
        raise ValueError("this is no fairseq checkpoint of linformer_roberta or roberta")
    cfg = checkpoint.get("cfg")
    if not isinstance(cfg, dict) or not {"model", "task"} <= cfg.keys():
        raise ValueError("this checkpoint has no cfg (older than fairseq 0.12): resave it with fairseq 0.12 first")

    def longer(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
        return {key: _lengthen_tensor(key, value, factor, padding_idx) for key, value in state.items()}

    new_model = longer(model)
    rows = next(value for key, value in new_model.items() if key.endswith(_POSITIONS)).size(0)
    k = {value.size(-2) for key, value in new_model.items() if key.endswith(_PROJECTIONS)}

    new = {key: value for key, value in checkpoint.items() if key != "last_optimizer_state"}
    new["model"] = new_model
    if "ema" in checkpoint.get("extra_state", {}):
        new["extra_state"] = {**checkpoint["extra_state"], "ema": longer(checkpoint["extra_state"]["ema"])}
    n = rows - padding_idx - 1
    changes = {"max_positions": n, "max_source_positions": n, "tokens_per_sample": n}
    if k:
        changes["projected_dim"] = k.pop()
    new["cfg"] = {**cfg, **{node: _updated(cfg[node], **changes) for node in ("task", "model")}}
    return new


def _lengthen_tensor(key: str, value: Tensor, factor: int, padding_idx: int) -> Tensor:
    if key.endswith(_POSITIONS):
        padding, real = value[: padding_idx + 1], value[padding_idx + 1 :]
        return torch.cat([padding, real.repeat(factor, 1)])
    if key.endswith(_PROJECTIONS):
        matrices = value if value.dim() == 3 else value.unsqueeze(0)
        blocks = torch.stack([torch.block_diag(*[matrix] * factor) for matrix in matrices])
        return blocks if value.dim() == 3 else blocks[0]
    return value


def _updated(node: Any, **changes: Any) -> Any:
    """A copy of a configuration node (a dict or a Namespace) with those of the changes that it knows."""
    values = dict(node) if isinstance(node, dict) else dict(vars(node))
    values.update({key: value for key, value in changes.items() if key in values})
    return values if isinstance(node, dict) else argparse.Namespace(**values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="checkpoint to read")
    parser.add_argument("target", help="checkpoint to write; must not exist")
    parser.add_argument("--factor", type=int, required=True, help="how many times as long")
    args = parser.parse_args()
    if os.path.exists(args.target):
        parser.error(f"{args.target} exists; nothing is overwritten")
    if not os.path.isfile(args.source):
        parser.error(f"{args.source} is not a file")
    if not os.path.isdir(os.path.dirname(args.target) or "."):
        parser.error(f"{os.path.dirname(args.target)} is not a folder")
    try:
        checkpoint = torch.load(args.source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, KeyError) as error:
        reason = (str(error).splitlines() or ["it ends early"])[0]
        parser.error(f"{args.source} cannot be read as a checkpoint of weights only: {reason}")
    try:
        new = lengthen(checkpoint, args.factor)
    except ValueError as error:
        parser.error(f"{args.source}: {error}")
    with atomic(args.target, "wb") as file:
        torch.save(new, file)
    rows = next(value for key, value in new["model"].items() if key.endswith(_POSITIONS)).size(0)
    print(f"{args.target}: {rows - PADDING_IDX - 1} positions")


if __name__ == "__main__":
    main()
