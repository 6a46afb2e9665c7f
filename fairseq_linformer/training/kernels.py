"""Which kernel PyTorch's ``scaled_dot_product_attention`` runs for the shapes of a model, on this machine's device.

PyTorch selects among flash, memory-efficient, cuDNN and unfused (math) attention by device, type, shape, mask and
dropout; a V100, for example, has no flash kernel. The model runs with two layers, a small feed-forward network and a
small vocabulary, on which the shapes of attention do not depend, and PyTorch reports the kernel of each call. Attention
itself is skipped, so nothing is timed.

    B sentences, n positions, m of them masked
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from fairseq.models import build_model
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor
from torch.backends import cuda
from torch.nn.attention import SDPBackend

from ..machine import hardware
from ..models.shapes import PADDING_IDX
from ..models.stub_task import StubTask
from ..projected_dim import format_projected_dim
from .planned_run import PlannedRun, build_run

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SENTENCES, VOCAB_SIZE, LAYERS = 2, 64, 2
NO_CALL = "none"
"""The layer computes attention without ``scaled_dot_product_attention``."""
_SMALL = {
    "encoder_layers": LAYERS,
    "encoder_layers_to_keep": None,
    "encoder_layerdrop": 0.0,
    "quant_noise_pq": 0.0,
    "quant_noise_scalar": 0.0,
    "compile": False,
    "checkpoint_activations": False,
    "offload_activations": False,
}


class AttentionCall(NamedTuple):
    """A call of ``scaled_dot_product_attention``; without shapes for a layer that does not call it.

    Attributes:
        use: ``training`` or ``inference``, whether the batch is padded, and whether it is the last layer, which in
            training computes the masked positions only.
        queries: (B, H, positions, d_h)
        keys: (B, H, positions, d_h)
        mask: shape of the additive mask; None without one.
        dropout: attention dropout probability.
    """

    use: str
    queries: tuple[int, ...] | None = None
    keys: tuple[int, ...] | None = None
    mask: tuple[int, ...] | None = None
    dropout: float = 0.0


def find_kernels(cfg: DictConfig, device: str) -> dict[AttentionCall, dict[str, str]]:
    """The kernel of each call, by name of the type.

    Args:
        cfg: configuration of ``fairseq-hydra-train``, as for ``build_run``.
        device: ``cpu`` or ``cuda``.

    Raises:
        ValueError: the planner does not cover the configuration.
    """
    run = build_run(cfg)
    found: dict[AttentionCall, dict[str, str]] = defaultdict(dict)
    for dim in dict.fromkeys(run.model.shape.projected_dims if run.model.linear else [None]):
        for name, dtype in DTYPES.items():
            if name == "bf16" and device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
                continue
            model = _build_small_model(cfg, run, dim).to(device, dtype)
            for call, kernel in _record_calls(model, run):
                found[call][name] = kernel
    return dict(found)


def select_kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> str:
    """The kernel that ``scaled_dot_product_attention`` runs for these tensors; on a GPU, in parentheses, other fused
    kernels that support them, and that ``torch.nn.attention.sdpa_kernel`` can select."""
    selected = _name(torch._fused_sdp_choice(q, k, v, mask, dropout, False))
    if not q.is_cuda:
        return selected
    parameters = cuda.SDPAParams(q, k, v, mask, dropout, False, False)
    checks = {
        "flash": cuda.can_use_flash_attention,
        "efficient": cuda.can_use_efficient_attention,
        "cudnn": cuda.can_use_cudnn_attention,
    }
    others = [name for name, supports in checks.items() if name != selected and supports(parameters)]
    return f"{selected} ({', '.join(others)})" if others else selected


def format_kernels(cfg: DictConfig, device: str) -> str:
    """A table of ``find_kernels``."""
    run = build_run(cfg)
    shape = run.model.shape
    name = torch.cuda.get_device_name() if device == "cuda" else hardware()["processor"]
    k = f", k = {shape.projected_dim}, {shape.sharing}" if run.model.linear else ""
    rows = [["", "queries", "keys", "mask", "dropout", *DTYPES]]
    for call, kernels in find_kernels(cfg, device).items():
        shapes = ["x".join(map(str, size)) if size else "-" for size in (call.queries, call.keys, call.mask)]
        rows.append([call.use, *shapes, f"{call.dropout:g}", *(kernels.get(dtype, "unsupported") for dtype in DTYPES)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        [
            f"kernels of scaled_dot_product_attention on {name}, torch {torch.__version__}",
            f"{run.architecture}, n = {run.positions:,}{k}; {SENTENCES} sequences",
            "",
            *("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows),
            "",
            f"{NO_CALL}: the layer computes attention without it",
        ]
    )


def _build_small_model(cfg: DictConfig, run: PlannedRun, dim: Any) -> Any:
    """The model with ``LAYERS`` layers of the same k."""
    shape, small = run.model.shape, OmegaConf.create(OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True))
    changes: dict[str, Any] = {key: value for key, value in _SMALL.items() if key in small or key == "encoder_layers"}
    changes |= {"encoder_ffn_embed_dim": shape.attention_heads}
    if dim is not None:
        changes |= {"projected_dim": format_projected_dim([dim] * LAYERS), "compressed": None}
    with open_dict(small):
        small.update(changes)
    return build_model(small, StubTask(VOCAB_SIZE, run.positions))


def _record_calls(model: Any, run: PlannedRun) -> Iterator[tuple[AttentionCall, str]]:
    """Run the model in training and in inference, with padding and without, and yield each call with its kernel."""
    for training in (True, False):
        for padded in (False, True):
            for i, calls in enumerate(_run_model(model, run, training, padded)):
                use = ("training" if training else "inference") + ", padded" * padded
                use += ", last layer" * (training and run.model.linear and i == LAYERS - 1)
                for kernel, *call in calls:
                    yield AttentionCall(use, *call), kernel
                if not calls:
                    yield AttentionCall(use, dropout=run.model.shape.attention_dropout * training), NO_CALL


def _run_model(model: Any, run: PlannedRun, training: bool, padded: bool) -> list[list[tuple[Any, ...]]]:
    """The calls in each layer: the kernel, shapes of queries, keys and mask, and dropout."""
    n, device = run.positions, next(model.parameters()).device
    tokens = torch.full((SENTENCES, n), VOCAB_SIZE - 1, device=device)
    if padded:
        tokens[0, -1] = PADDING_IDX  # too little for a second group of similar length
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    masked[:, : min(run.num_masked, n // 2)] = True
    by_layer: list[list[tuple[Any, ...]]] = []

    def record(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        *_: Any,  # neither model is causal
        **__: Any,
    ) -> Tensor:
        mask = None if attn_mask is None else tuple(attn_mask.shape)
        kernel = select_kernel(q, k, v, attn_mask, dropout_p)
        by_layer[-1].append((kernel, tuple(q.shape), tuple(k.shape), mask, dropout_p))
        return q.new_zeros(*q.shape[:-1], v.size(-1))

    layers = model.train(training).encoder.sentence_encoder.layers
    hooks = [layer.register_forward_pre_hook(lambda *_: by_layer.append([])) for layer in layers]
    with mock.patch.object(F, "scaled_dot_product_attention", record), torch.set_grad_enabled(training):
        model(tokens, **({"masked_tokens": masked} if training else {"features_only": True}))
    for hook in hooks:
        hook.remove()
    return by_layer


def _name(backend: int) -> str:
    """``flash``, ``efficient``, ``cudnn``, ``math``."""
    names = {
        SDPBackend.MATH: "math",
        SDPBackend.FLASH_ATTENTION: "flash",
        SDPBackend.EFFICIENT_ATTENTION: "efficient",
        SDPBackend.CUDNN_ATTENTION: "cudnn",
    }
    return names.get(SDPBackend(backend), str(backend))
