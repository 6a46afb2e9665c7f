"""The bytes that PyTorch allocates, and the operations it counts, in one training step of a real model."""

import gc
import weakref
from argparse import Namespace
from unittest.mock import patch

import torch
import torch.nn.functional as F
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.roberta import RobertaModel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from fairseq_linformer.benchmark.formulas import Batch
from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.models.stub_task import StubTask
from fairseq_linformer.training.planned_run import build_model_shape

VOCAB_SIZE = 304
SMALL = dict(
    encoder_layers=4,
    encoder_embed_dim=64,
    encoder_ffn_embed_dim=256,
    encoder_attention_heads=4,
    projected_dim=16,
    attention_dropout=0.0,
)
BASE = dict(
    encoder_layers=2,
    encoder_embed_dim=768,
    encoder_ffn_embed_dim=3072,
    encoder_attention_heads=12,
    attention_dropout=0.0,
)
UNEQUAL = dict(projected_dim="32x2,16/8/8/16x2", sharing="none")
NO_WINDOWS = dict(projected_dim=32, projection_init="normal")
ROBERTA = dict(arch="roberta")


class Allocations(TorchDispatchMode):
    """Counts live and peak bytes of the storages that operations allocate, except those of ``known`` tensors."""

    def __init__(self, known):
        super().__init__()
        self.known = {t.untyped_storage()._cdata for t in known}
        self.sizes, self.live, self.peak = {}, 0, 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self.sizes and key not in self.known:
                    self.sizes[key] = storage.nbytes()
                    self.live += storage.nbytes()
                    self.peak = max(self.peak, self.live)
                    weakref.finalize(storage, self._free, key)
        return out

    def _free(self, key):
        self.live -= self.sizes.pop(key)


def build(n: int, vocabulary: int = VOCAB_SIZE, arch: str = "linformer_roberta_tiny", **options):
    """Build a model as fairseq does, and the planner's ``PlannedModel`` of the same options."""
    task = StubTask(vocabulary, n)
    planned = build_model_shape({"_name": arch, **options}, n, vocabulary)[1]
    if planned.linear:
        return LinformerRobertaModel.build_model(Namespace(arch=arch, **options), task), planned
    args = Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    return RobertaModel.build_model(args, task), planned


class GpuDropout(torch.autograd.Function):
    """Dropout with one byte per mask entry and no temporary tensors; ``F.dropout`` on a CPU saves the mask in fp32."""

    @staticmethod
    def forward(ctx, x, p):
        dropped, mask = torch.native_dropout(x, p, True)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - p)
        return dropped

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.saved_tensors[0]).mul_(ctx.scale), None


def gpu_dropout(x, p, training=True, inplace=False):
    return GpuDropout.apply(x, p) if training and p > 0 else x


def _batch(batch: Batch, device="cpu"):
    B, n, m = batch.sentences, batch.positions, batch.num_masked
    masked = torch.zeros(B, n, dtype=torch.bool, device=device)
    masked[:, :m] = True
    return torch.full((B, n), 10, device=device), masked, torch.full((B * m,), 10, device=device)


def _loss(model, tokens, masked, targets):
    logits = model(tokens, masked_tokens=masked)[0]
    # like fairseq's criterion without apex
    return F.nll_loss(F.log_softmax(logits, -1, dtype=torch.float32), targets, reduction="sum")


def pytorch_bytes(model: torch.nn.Module, batch: Batch) -> tuple[int, int]:
    """Bytes after the forward pass, and the peak of forward and backward, without parameters and their gradients."""
    model.train()
    for p in model.parameters():
        if p.requires_grad:  # as in all micro-batches of an update but the first
            p.grad = torch.zeros_like(p)
    inputs = _batch(batch)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    gc.collect()
    known = [*model.parameters(), *model.buffers(), *gradients, *inputs]
    with patch.object(F, "dropout", gpu_dropout), Allocations(known) as counter:
        loss = _loss(model, *inputs)
        saved = counter.live
        loss.backward()
    return saved, counter.peak


def pytorch_flops(model: torch.nn.Module, batch: Batch) -> tuple[int, int]:
    """Floating-point operations of forward, and of forward and backward."""
    model.train()
    with FlopCounterMode(display=False) as counter:
        loss = _loss(model, *_batch(batch))
        forward = counter.get_total_flops()
        loss.backward()
    return forward, counter.get_total_flops()


def cuda_bytes(model: torch.nn.Module, batch: Batch) -> tuple[int, int]:
    """Like ``pytorch_bytes``, in fp16, counted by the GPU's allocator."""
    model.half().cuda().train()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    inputs = _batch(batch, "cuda")
    _loss(model, *inputs).backward()  # allocates persistent workspaces
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = _loss(model, *inputs)
    saved = torch.cuda.memory_allocated() - before
    loss.backward()
    return saved, torch.cuda.max_memory_allocated() - before
