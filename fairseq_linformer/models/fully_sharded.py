"""``--ddp-backend fully_sharded`` through PyTorch's ``fully_shard``; fairseq's needs fairscale, which is unmaintained.

Parameters, gradients and optimizer states of RoBERTa and the Linformer are split over G ranks. fairseq sees this as
another kind of distributed data parallelism: the optimizer gets the shards as plain parameters, so precisions, gradient
clipping and the learning rate work as with the other backends. Checkpoints are whole, and the same for all backends and
numbers of ranks: a run may resume with another. Buffers, such as the start of E and F, are not split.

A layer with at least ``min_params_to_wrap`` parameters is gathered on its own. Smaller ones are gathered with the rest
of the model, from the forward pass to the end of the backward pass.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from functools import wraps
from typing import Any

import fairseq.distributed
import fairseq.models
import torch
from fairseq import utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from fairseq.trainer import Trainer
from torch import Tensor, nn

logger = logging.getLogger(__name__)

BACKEND = "fully_sharded"
_UNSUPPORTED = """
    common.amp common.quantization_config_path ema.store_ema optimization.use_bmuf distributed_training.cpu_offload
    distributed_training.use_sharded_state distributed_training.pipeline_model_parallel
""".split()
_UNSUPPORTED_MODEL_OPTIONS = """
    encoder_layerdrop quant_noise_pq quant_noise_scalar spectral_norm_classification_head mha_reg_scale_factor
    ffn_reg_scale_factor
""".split()
"""Ranks may drop different layers, and the others access weights outside of ``forward``."""


class ShardedModel(nn.Module):
    """A model whose parameters are split over the ranks of a process group.

    It is whole until ``shard``, so that checkpoints can be loaded. Other attributes are those of the model.

    Args:
        module: RoBERTa or a Linformer, the same on all ranks.
        options: fairseq's ``DistributedTrainingConfig``.
        group: process group of the ranks.
        device: device to train on.
    """

    def __init__(self, module: nn.Module, options: Any, group: Any, device: torch.device):
        super().__init__()
        self.module: Any = module
        self._options, self._group, self._device = options, group, device
        self._shards: dict[str, tuple[Any, nn.Parameter]] = {}
        self._gathered: dict[str, Tensor] | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def shard(self) -> None:
        """Split the parameters and move them to the device; a second call has no effect."""
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        if self._shards:
            return
        options, args = self._options, self.module.args
        mesh = DeviceMesh.from_group(self._group, self._device.type)
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32 if options.fp32_reduce_scatter else None)
        smallest = 0 if getattr(args, "checkpoint_activations", False) else min_params_to_wrap(args)
        layers = self.module.encoder.sentence_encoder.layers
        large = [layer for layer in layers if sum(p.numel() for p in layer.parameters()) >= smallest]
        for layer in large:
            reshards = not options.no_reshard_after_forward
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshards)
        fully_shard(self.module, mesh=mesh, mp_policy=policy)
        for name, parameter in self.module.named_parameters():
            shard = nn.Parameter(parameter.detach().to_local(), parameter.requires_grad)  # shares its memory
            self._shards[name] = parameter, shard
        logger.info(
            "fully sharded over %d ranks: %d of %d layers are gathered on their own; this rank has %d of %d parameters",
            mesh.size(),
            len(large),
            len(layers),
            sum(shard.numel() for _, shard in self._shards.values()),
            sum(parameter.numel() for parameter, _ in self._shards.values()),
        )

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The shards of this rank, after ``shard``."""
        if not self._shards:
            return self.module.named_parameters(*args, **kwargs)
        return ((name, shard) for name, (_, shard) in self._shards.items())

    def all_reduce_grads(self) -> None:
        """Move the gradients, which are already averaged over the ranks, to the shards. fairseq calls it once per
        update, after the last backward pass."""
        for parameter, shard in self._shards.values():
            shard.grad = None if parameter.grad is None else parameter.grad.to_local()
            parameter.grad = None

    def gather_state(self) -> None:
        """Gather the state dict on rank 0 for the next call of ``state_dict``; all ranks must call it."""
        whole: dict[Tensor, Tensor] = {}  # tied embeddings are gathered once
        self._gathered = {}
        for key, value in self.module.state_dict(keep_vars=True).items():
            if value not in whole:
                whole[value] = self._to_rank_0(value)
            self._gathered[key] = whole[value]

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The whole model, which ``gather_state`` has gathered on rank 0; empty on other ranks."""
        if not self._shards:
            return self.module.state_dict(*args, **kwargs)
        if self._gathered is None:
            raise RuntimeError("gather_state must be called on all ranks before state_dict")
        gathered, self._gathered = self._gathered, None
        return gathered if self._rank == 0 else {}

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a whole model; RuntimeError after ``shard``."""
        if self._shards:
            raise RuntimeError("checkpoints must be loaded before the model is sharded")
        return self.module.load_state_dict(*args, **kwargs)

    def gather_optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """The optimizer's state as if the model were whole, on rank 0; all ranks must call it."""
        state = optimizer.state_dict()
        return {**state, "state": self._map_optimizer_state(state["state"], optimizer, self._gather)}

    def shard_optimizer_state(self, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        """This rank's part of the state of an optimizer of the whole model."""
        return {**state, "state": self._map_optimizer_state(state["state"], optimizer, self._take_shard)}

    def _map_optimizer_state(self, state: dict[int, Any], optimizer: Any, convert: Any) -> dict[int, Any]:
        """Convert the tensors of each parameter, or of the flat copy of all parameters that fp16 has."""
        trainable = [parameter for parameter, shard in self._shards.values() if shard.requires_grad]
        is_flat = getattr(optimizer, "has_flat_params", False)
        return {
            i: {
                key: convert(value, trainable if is_flat else [trainable[i]], is_flat)
                if isinstance(value, Tensor) and value.dim() > 0
                else value
                for key, value in entries.items()
            }
            for i, entries in state.items()
        }

    def _gather(self, value: Tensor, parameters: list[Any], is_flat: bool) -> Tensor:
        """Gather a tensor that is sharded like these parameters."""
        from torch.distributed.tensor import DTensor

        shapes = [parameter.to_local().shape for parameter in parameters]
        parts = value.split([shape.numel() for shape in shapes]) if is_flat else [value]
        whole = [
            self._to_rank_0(
                DTensor.from_local(
                    part.view(shape), p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
                )
            )
            for part, shape, p in zip(parts, shapes, parameters)
        ]
        return torch.cat([part.flatten() for part in whole]) if is_flat else whole[0]

    def _take_shard(self, value: Tensor, parameters: list[Any], is_flat: bool) -> Tensor:
        """The inverse of ``_gather``."""
        parts = value.split([p.numel() for p in parameters]) if is_flat else [value]
        shards = []
        for part, p in zip(parts, parameters):
            chunks = part.view(p.shape).chunk(p.device_mesh.size())
            shards.append(chunks[self._rank] if self._rank < len(chunks) else part.view(p.shape)[:0])
        return torch.cat([shard.flatten() for shard in shards]) if is_flat else shards[0].clone()

    def _to_rank_0(self, value: Any) -> Tensor:
        """A whole tensor in the memory of rank 0's CPU; an empty one on other ranks."""
        whole = value.detach().full_tensor() if hasattr(value, "full_tensor") else value.detach()
        return whole.cpu() if self._rank == 0 else whole.new_empty(0)

    @property
    def _rank(self) -> int:
        return torch.distributed.get_rank(self._group)


def min_params_to_wrap(args: Any) -> int:
    """The option of this name, whose default is missing in a YAML configuration of ``roberta``."""
    value = getattr(args, "min_params_to_wrap", None)
    return DEFAULT_MIN_PARAMS_TO_WRAP if value is None else int(value)


def check_sharding(cfg: Any, model: nn.Module, criterion: nn.Module | None = None) -> None:
    """Check a run with ``ddp_backend=fully_sharded``; others pass.

    Raises:
        ValueError: the model, the criterion or an option is not supported; the message names it.
    """
    if cfg.distributed_training.ddp_backend != BACKEND:
        return
    needs = f"with distributed_training.ddp_backend={BACKEND}"
    if not isinstance(model, RobertaModel):
        raise ValueError(f"model must be linformer_roberta or roberta {needs}, got {type(model).__name__}")
    values = {key: getattr(getattr(cfg, key.split(".")[0]), key.split(".")[1], None) for key in _UNSUPPORTED}
    values |= {f"model.{name}": getattr(model.args, name, None) for name in _UNSUPPORTED_MODEL_OPTIONS}
    for key, value in values.items():
        if value:
            raise ValueError(f"{key} is not supported {needs}, got {value}; omit it, or use ddp_backend=legacy_ddp")
    if cfg.distributed_training.zero_sharding != "none":
        raise ValueError(f"zero_sharding must be none {needs}, got {cfg.distributed_training.zero_sharding}")
    if cfg.distributed_training.heartbeat_timeout > 0:
        raise ValueError(f"heartbeat_timeout must be -1 {needs}, got {cfg.distributed_training.heartbeat_timeout}")
    if criterion is not None and utils.has_parameters(criterion):
        raise ValueError(f"criterion must not have parameters {needs}, got {type(criterion).__name__}")


def patch_fully_sharded() -> None:
    """Replace fairseq's use of fairscale."""
    for name in ("fairseq.distributed", "fairseq_cli.train", "__main__"):
        if hasattr(sys.modules.get(name), "fsdp_enable_wrap"):
            sys.modules[name].fsdp_enable_wrap = lambda options: nullcontext()  # type: ignore[attr-defined]
    # fairseq takes the branches of all backends; what sharding needs is added below.
    Trainer.is_fsdp = property(lambda trainer: False)
    wrap_model, init = fairseq.models.DistributedFairseqModel, Trainer.__init__
    build_optimizer, clip_grad_norm = Trainer._build_optimizer, Trainer.clip_grad_norm
    consolidate_optimizer = Trainer.consolidate_optimizer

    @wraps(wrap_model)
    def wrap_or_shard(options: Any, model: nn.Module, process_group: Any, device: torch.device) -> nn.Module:
        if options.ddp_backend != BACKEND:
            return wrap_model(options, model, process_group, device)
        return ShardedModel(model, options, process_group, device)

    @wraps(init)
    def init_checked(
        trainer: Any, cfg: Any, task: Any, model: nn.Module, criterion: nn.Module, *args: Any, **options: Any
    ) -> None:
        check_sharding(cfg, model, criterion)
        init(trainer, cfg, task, model, criterion, *args, **options)

    @wraps(build_optimizer)
    def build_sharded_optimizer(trainer: Any) -> None:
        model = trainer.model
        if not isinstance(model, ShardedModel):
            return build_optimizer(trainer)
        model.shard()
        build_optimizer(trainer)
        optimizer = trainer.optimizer
        if not optimizer.supports_flat_params:
            name = type(optimizer).__name__
            raise ValueError(f"optimizer must be pointwise, such as adam, with ddp_backend={BACKEND}, got {name}")
        load = optimizer.load_state_dict
        optimizer.load_state_dict = lambda state, *args: load(model.shard_optimizer_state(optimizer, state), *args)

    @wraps(clip_grad_norm)
    def clip_norm_of_all_shards(trainer: Any, clip_norm: float) -> Tensor:
        if not isinstance(trainer.model, ShardedModel):
            return clip_grad_norm(trainer, clip_norm)

        def combine(norm: Tensor) -> Tensor:
            squares = distributed_utils.all_reduce(norm.float() ** 2, group=trainer.data_parallel_process_group)
            return squares**0.5

        return trainer.optimizer.clip_grad_norm(clip_norm, aggregate_norm_fn=combine)

    @wraps(consolidate_optimizer)
    def gather_checkpoint(trainer: Any) -> None:
        """fairseq calls it on all ranks before rank 0 saves."""
        if not isinstance(trainer.model, ShardedModel):
            return consolidate_optimizer(trainer)
        error = sys.exception()
        if error is not None and not _is_raised_on_all_ranks(error):
            raise error  # rather than save crash.pt, for which this rank would wait for the others
        trainer.model.gather_state()
        if not trainer.cfg.checkpoint.no_save_optimizer_state:
            trainer._gathered_optim_state = trainer.model.gather_optimizer_state(trainer.optimizer)

    fairseq.models.DistributedFairseqModel = wrap_or_shard
    for method in (init_checked, build_sharded_optimizer, clip_norm_of_all_shards, gather_checkpoint):
        setattr(Trainer, method.__name__, method)  # ``wraps`` names it like the one that it replaces


def _is_raised_on_all_ranks(error: BaseException) -> bool:
    """Whether all ranks raised the error (non-finite total gradient norm), not one rank in its own passes."""
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, FloatingPointError) and frames.count("train_step") <= 1  # the trainer's, not the task's
