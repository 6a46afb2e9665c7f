"""What is wrong in fairseq for everybody, corrected while this plugin is loaded. Each fix names its fault.

The plugin is imported before fairseq starts processes or reads a checkpoint; only ``fairseq-hydra-train`` imports it
later, in each process.
"""

import argparse
import ast
import atexit
import collections
import json
import math
import os
import queue
import re
import sys
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakSet

import numpy as np
import omegaconf
import torch
import torch.distributed as dist
import torch.nn.functional as F
from fairseq import checkpoint_utils, utils
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator, EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import masked_lm
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from fairseq_cli import train
from torch import Tensor, nn

from .hub_bpe import begins_word
from .shapes import head_names

NUM_RANKS_KEY = "num_shards"
"""Key of the number of ranks in the state of an epoch, in checkpoints."""
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
"""Environment variables that torchrun sets."""
_REJECTED_TYPE = re.compile(r"[Uu]nsupported (?:global: GLOBAL|GLOBAL|class) (\S+)")
_ALLOCATION = re.compile(r"Tried to allocate ([\d.]+ \w+)")


def fix_fairseq() -> None:
    """Apply all fixes."""
    for fix in (
        fix_masks,
        fix_number_of_ranks,
        fix_loading,
        fix_eval,
        fix_restore_file,
        fix_missing_heads,
        fix_copies,
        fix_best_metric,
        fix_out_of_memory,
        fix_bf16,
        fix_fp16_on_cpu,
        fix_amp_on_cpu,
        fix_torchrun_on_cpu,
        fix_device_ids_on_cpu,
        fix_gathering_on_cpu,
        fix_numpy_names,
        fix_whole_words,
        fix_end_of_loading,
    ):
        fix()


# Epochs


def fix_masks() -> None:
    """Masks are new in every epoch: fairseq keeps its data loader processes, whose copy of the dataset stays in the
    first epoch."""
    init = EpochBatchIterator.__init__

    @wraps(init)
    def init_without_reuse(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.reuse_dataloader = self.persistent_workers = False

    EpochBatchIterator.__init__ = init_without_reuse


def fix_number_of_ranks() -> None:
    """Training resumes with any number of ranks: fairseq counts the batches that each rank has read, so that another
    number would repeat or skip a part of the epoch."""
    state_dict, load_state_dict = EpochBatchIterator.state_dict, EpochBatchIterator.load_state_dict

    @wraps(state_dict)
    def state_dict_with_ranks(self: Any) -> dict[str, Any]:
        return {**state_dict(self), NUM_RANKS_KEY: self.num_shards}

    @wraps(load_state_dict)
    def load_state_dict_with_ranks(self: Any, state: dict[str, Any]) -> None:
        # The batches of an epoch have one order, and each of N ranks takes every N-th.
        num_batches = state.get("iterations_in_epoch", 0) * state.get(NUM_RANKS_KEY, self.num_shards)
        load_state_dict(self, {**state, "iterations_in_epoch": num_batches // self.num_shards})

    EpochBatchIterator.state_dict = state_dict_with_ranks
    EpochBatchIterator.load_state_dict = load_state_dict_with_ranks


# Checkpoints


def fix_loading() -> None:
    """Checkpoints load, as data: PyTorch rejects the types of fairseq's own settings, and OmegaConf replaces
    ``${oc.env:NAME}`` in them by the environment."""
    # Settings, NumPy's numbers (best metrics), and what the first rank sends to the others when training resumes. All
    # are plain data; other types stay rejected.
    scalar = cast(Any, np.float64(0).__reduce__()[0])  # its module depends on NumPy's version
    numbers = [scalar, np.dtype, type(np.dtype(np.float64)), type(np.dtype(np.float32))]
    containers = [collections.defaultdict, dict, list, int, typing.Any, distributed_utils._TensorPlaceholder]
    settings = [argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode]
    settings += [omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
    torch.serialization.add_safe_globals([*numbers, *containers, *settings])
    load = checkpoint_utils.load_checkpoint_to_cpu

    @wraps(load)
    def load_as_data(path: str, *args: Any, **kwargs: Any) -> Any:
        with _explain_failures(path, "a fairseq checkpoint"):
            state = load(path, *args, **kwargs)
        check_settings(path, state)
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_as_data


def load_weights_only(path, mmap: bool = False) -> Any:
    """Load a file of ``torch.save`` on the CPU, without running code in it.

    Args:
        mmap: do not read the tensors, which stay in the file.

    Raises:
        ValueError: it contains code, is compressed or truncated, or is not such a file.
        OSError: it cannot be read.
    """
    with _explain_failures(path, "a PyTorch checkpoint"):
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap and zipfile.is_zipfile(path))


@contextmanager
def _explain_failures(path, expected: str) -> Iterator[None]:
    """Raise ValueError if a file that the block loads is compressed, contains code, or is truncated or of another
    format."""
    _check_uncompressed(path)
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # torch raises many types of errors on files that are not pickles
        if code := _REJECTED_TYPE.search(str(error)):
            raise ValueError(
                f"{path} contains code ({code[1]}); a checkpoint may contain only weights and settings"
            ) from None
        raise ValueError(f"{path} is truncated, or is not {expected}") from None


def _check_uncompressed(path) -> None:
    """Raise ValueError if a zip archive is compressed, and could unpack to any size; torch.save does not compress."""
    if not zipfile.is_zipfile(path):
        return
    with suppress(zipfile.BadZipFile, NotImplementedError), zipfile.ZipFile(path) as archive:  # torch reports these
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError(f"{path} must not be compressed, as torch.save writes it")


def check_settings(path, checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting of a checkpoint has an interpolation, which can read environment variables."""
    for key in ("cfg", "args"):
        # OmegaConf's containers print interpolations unresolved.
        if found := re.search(r"\$\{[^}]{,100}\}?", str(checkpoint.get(key))):
            raise ValueError(f"the settings of {path} must not have interpolations, got {found[0]!r}")


def fix_eval() -> None:
    """Options are data: fairseq calls ``eval`` on some of them (``--adam-betas``), also on those in a checkpoint."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            vars(module)["eval"] = evaluate_literal


def evaluate_literal(text: str, *_: Any) -> Any:
    """Evaluate an option as fairseq does with ``eval``: literals, and sums and products of them.

    >>> evaluate_literal("(0.9, 0.98)"), evaluate_literal("[(512, 10, 5)] + [(512, 3, 2)] * 2")
    ((0.9, 0.98), [(512, 10, 5), (512, 3, 2), (512, 3, 2)])

    Raises:
        ValueError: it is anything else.
    """
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError, AttributeError):
        raise ValueError(f"options must be numbers, strings, tuples or lists, got {str(text)[:100]!r}") from None


def _evaluate(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _evaluate(node.left) + _evaluate(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if any(isinstance(each, int) and abs(each) > 10_000 for each in (left, right)):
            raise ValueError
        return left * right
    return ast.literal_eval(node)


def fix_restore_file() -> None:
    """A checkpoint that training starts from must exist and have the model's options: fairseq starts from random
    parameters without ``--restore-file``, and compares shapes only."""
    load = Trainer.load_checkpoint

    @wraps(load)
    def load_if_it_fits(self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        if not PathManager.isfile(filename):
            if self.cfg.checkpoint.restore_file != "checkpoint_last.pt":
                raise ValueError(f"--restore-file must be a checkpoint, got {filename}, which does not exist")
        elif hasattr(self.model, "check_options"):  # the models of this plugin
            self.model.check_options(read_options(filename))
        return load(self, filename, *args, **kwargs)

    Trainer.load_checkpoint = load_if_it_fits


def read_options(path) -> dict[str, Any]:
    """The options of the model of a fairseq checkpoint. Its tensors stay in the file."""
    checkpoint = load_weights_only(path, mmap=True)
    check_settings(path, checkpoint)
    options = checkpoint["cfg"]["model"] if checkpoint.get("cfg") else checkpoint["args"]
    return dict(vars(options) if isinstance(options, argparse.Namespace) else options)


def fix_missing_heads() -> None:
    """A checkpoint to evaluate must have its task's classification head: fairseq evaluates a random one instead."""
    load = checkpoint_utils.load_model_ensemble_and_task

    @wraps(load)
    def load_with_heads(filenames: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        models, cfg, task = load(filenames, *args, **kwargs)
        for filename, model in zip(filenames, models):
            needed = set(getattr(model, "classification_heads", ()))
            if needed and os.path.isfile(filename):  # else it has several parts
                missing = needed.difference(head_names(load_weights_only(filename, mmap=True)["model"]))
                if missing:
                    raise ValueError(f"{filename} must have its task's classification head {missing.pop()!r}")
        return models, cfg, task

    checkpoint_utils.load_model_ensemble_and_task = load_with_heads


def fix_copies() -> None:
    """``checkpoint_best.pt`` and ``checkpoint_last.pt`` are complete: fairseq copies to them in place, so that a killed
    process would leave a damaged one."""
    copy = PathManager.copy

    def copy_and_rename(source: str, target: str, overwrite: bool = False) -> Any:
        copied = copy(source, f"{target}.tmp", overwrite=True)
        os.replace(f"{target}.tmp", target)
        return copied

    PathManager.copy = staticmethod(copy_and_rename)


def fix_best_metric() -> None:
    """NaN never becomes the best metric: in fairseq any later validation would replace its ``checkpoint_best.pt``, and
    none would count as better for ``--patience``."""
    save_checkpoint, should_stop_early = checkpoint_utils.save_checkpoint, train.should_stop_early

    @wraps(save_checkpoint)
    def save_without_nan_as_best(cfg: Any, trainer: Any, epoch_itr: Any, metric: float | None, *args: Any) -> Any:
        is_usable = metric is not None and math.isfinite(metric)
        return save_checkpoint(cfg, trainer, epoch_itr, metric if is_usable else None, *args)

    @wraps(should_stop_early)
    def stop_with_nan_as_worst(cfg: Any, metric: float | None) -> bool:
        if metric is not None and not math.isfinite(metric):
            metric = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
        return bool(should_stop_early(cfg, metric))

    checkpoint_utils.save_checkpoint, train.should_stop_early = save_without_nan_as_best, stop_with_nan_as_worst


# Memory and precision


def fix_out_of_memory() -> None:
    """The first batch that does not fit ends training: fairseq would skip every such batch, and never end."""
    train_step = Trainer.train_step

    @wraps(train_step)
    def train_step_or_end(self: Any, samples: Sequence[Any], raise_oom: bool = False) -> Any:
        try:
            return train_step(self, samples, raise_oom=True)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if "out of memory" not in str(error):
                raise
            request = _ALLOCATION.search(str(error))
            raise RuntimeError(  # without "out of memory", which fairseq would catch
                f"update {self.get_num_updates() + 1}: the GPU is full: "
                f"{f'allocating {request[1]}' if request else 'an allocation'} failed; lower --batch-size and raise "
                "--update-freq by the same factor, or pass --checkpoint-activations"
            ) from None

    Trainer.train_step = train_step_or_end


def fix_bf16() -> None:
    """``--bf16`` means bf16 on a GPU: fairseq takes it for a TPU and fails without one."""
    call_main = distributed_utils.call_main

    @wraps(call_main)
    def call_main_without_tpu(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        cfg.common.tpu = cfg.common.tpu and "--tpu" in sys.argv
        return call_main(cfg, main, **kwargs)

    distributed_utils.call_main = call_main_without_tpu


def _is_on_cpu(common: Any) -> bool:
    """Whether the configuration group ``common`` trains on a CPU."""
    return not common.tpu and (common.cpu or not torch.cuda.is_available())


def fix_fp16_on_cpu() -> None:
    """``--fp16`` is rejected on a CPU, where fairseq fails in the first update."""
    init = Trainer.__init__

    @wraps(init)
    def init_after_check(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        if cfg.common.fp16 and _is_on_cpu(cfg.common):
            raise ValueError("--fp16 needs a GPU; on a CPU use --amp (YAML: common.fp16=false common.amp=true)")
        init(self, cfg, *args, **kwargs)

    Trainer.__init__ = init_after_check


def fix_amp_on_cpu() -> None:
    """``--amp`` computes in bf16 on a CPU: fairseq's autocast is CUDA's, so that training stays in single precision.

    bf16 has the range of single precision and needs no gradient scaler, which would hide non-finite gradients: they end
    training, as without ``--amp``.
    """
    train_step, clip_grad_norm = FairseqTask.train_step, AMPOptimizer.clip_grad_norm

    @wraps(train_step)
    def train_step_on_cpu(
        self: Any, sample: Any, model: nn.Module, criterion: Any, optimizer: Any, *args: Any, **options: Any
    ) -> Any:
        if isinstance(optimizer, AMPOptimizer) and not next(model.parameters()).is_cuda:
            _exempt_attention()
            criterion = partial(_run_in_cpu_bf16, criterion)
            if optimizer.scaler.is_enabled():  # on a machine with a GPU
                optimizer._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)
        return train_step(self, sample, model, criterion, optimizer, *args, **options)

    @wraps(clip_grad_norm)
    def clip_grad_norm_on_cpu(self: Any, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        if self.scaler.is_enabled():
            norm: Tensor = clip_grad_norm(self, max_norm, aggregate_norm_fn)
            return norm
        norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
        if not torch.isfinite(norm).all():
            raise FloatingPointError("gradients are Nan/Inf")  # fairseq's words
        return norm

    FairseqTask.train_step = train_step_on_cpu
    AMPOptimizer.clip_grad_norm = clip_grad_norm_on_cpu


def _run_in_cpu_bf16(criterion: Callable[..., Any], model: nn.Module, sample: Any) -> Any:
    """The forward pass alone, as PyTorch recommends."""
    with torch.autocast("cpu", torch.bfloat16):
        return criterion(model, sample)


@cache
def _exempt_attention() -> None:
    """Run ``scaled_dot_product_attention`` in single precision on a CPU under autocast.

    Its kernel multiplies no faster in bf16, and its backward pass is up to 15 times slower (torch 2.13, batch 32, 12
    heads of 32, n = 16; equal at n = 512). Patched for the process rather than for the forward pass, because activation
    checkpointing repeats it later.
    """
    attention = F.scaled_dot_product_attention

    @wraps(attention)
    def attention_without_autocast(*args: Any, **options: Any) -> Tensor:
        if args[0].device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return attention(*args, **options)
        with torch.autocast("cpu", enabled=False):
            return attention(*map(_float, args), **{name: _float(value) for name, value in options.items()})

    F.scaled_dot_product_attention = attention_without_autocast


def _float(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


# Processes


def fix_torchrun_on_cpu() -> None:
    """torchrun starts one job on CPUs: fairseq, which counts GPUs, starts a job in each process, all of which write the
    same checkpoints, or divides by 0. ``fairseq-hydra-train`` imports the plugin too late, and is rejected."""
    call_main, init = distributed_utils.call_main, Trainer.__init__

    def is_under_torchrun() -> bool:
        return all(name in os.environ for name in TORCHRUN) and int(os.environ["WORLD_SIZE"]) > 1

    @wraps(call_main)
    def call_main_as_rank(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        options = cfg.distributed_training
        if is_under_torchrun() and options.distributed_init_method is None and _is_on_cpu(cfg.common):
            options.distributed_init_method = "env://"
            options.distributed_world_size = int(os.environ["WORLD_SIZE"])
            options.distributed_rank = int(os.environ["RANK"])
            options.distributed_backend = "gloo"  # the default, nccl, is for GPUs
            options.distributed_no_spawn = True
        return call_main(cfg, main, **kwargs)

    @wraps(init)
    def init_as_rank(self: Any, *args: Any, **kwargs: Any) -> None:
        if is_under_torchrun() and not dist.is_initialized():
            raise ValueError(
                "fairseq-hydra-train under torchrun needs distributed_training.distributed_init_method=env://, and its "
                "distributed_world_size, distributed_rank='${oc.env:RANK}', distributed_no_spawn=true, and "
                "distributed_backend=gloo on CPUs"
            )
        init(self, *args, **kwargs)

    distributed_utils.call_main, Trainer.__init__ = call_main_as_rank, init_as_rank


def fix_device_ids_on_cpu() -> None:
    """``--ddp-backend pytorch_ddp``, the default, works on CPUs: fairseq passes device IDs, which PyTorch rejects."""
    wrap = distributed_fairseq_model.DistributedDataParallel

    @wraps(wrap, updated=())
    def wrap_on_its_device(module: nn.Module, device_ids: Any, output_device: Any, **options: Any) -> nn.Module:
        if not next(module.parameters()).is_cuda:
            device_ids = output_device = None
        return wrap(module, device_ids, output_device, **options)

    distributed_fairseq_model.DistributedDataParallel = wrap_on_its_device


def fix_gathering_on_cpu() -> None:
    """Ranks on CPUs exchange logs that cannot be summed, and those of ``fairseq-validate``: fairseq's buffers are on
    GPUs."""
    gather = distributed_utils.all_gather_list

    @wraps(gather)
    def gather_without_gpu(data: Any, group: Any = None, max_size: int = 16384) -> list[Any]:
        if torch.cuda.is_available():
            return list(gather(data, group, max_size))
        group = group or distributed_utils.get_global_group()
        gathered: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(gathered, utils.move_to_cpu(data), group)
        return gathered

    distributed_utils.all_gather_list = gather_without_gpu


# Others


def fix_numpy_names() -> None:
    """``--sample-break-mode eos`` and others work: NumPy 2 has removed names that fairseq uses."""
    numpy = cast(Any, np)
    numpy.compat, numpy.int, numpy.float = SimpleNamespace(long=np.int64), int, float


def fix_whole_words() -> None:
    """``--mask-whole-words`` works: fairseq's task reads options that it lacks. Words are those of the tokenizer."""
    task = cast(Any, masked_lm)
    task.MaskedLMTask.args = property(lambda self: self.cfg)
    task.get_whole_word_mask = lambda cfg, dictionary: find_beginnings(cfg.data.split(os.pathsep)[0], dictionary)


def find_beginnings(data, dictionary: Any) -> Tensor:
    """(V,) 1 for special tokens, and for those that begin a word, 0 for those that continue it.

    Args:
        data: folder of the dictionary, with ``encoder.json`` if its entries are the token IDs of GPT-2's BPE.
    """
    gpt2 = Path(data) / "encoder.json"
    pieces = {str(i): piece for piece, i in json.loads(gpt2.read_text()).items()} if gpt2.is_file() else {}
    symbols = [pieces.get(symbol, symbol) for symbol in dictionary.symbols]
    is_wordpiece = any(symbol.startswith("##") for symbol in symbols)
    begins = [begins_word(symbol, is_wordpiece) for symbol in symbols]
    if not any(begins):
        raise ValueError(f"--mask-whole-words needs the tokenizer's encoder.json in {data}")
    special = [i < dictionary.nspecial or symbol == "<mask>" for i, symbol in enumerate(symbols)]
    return torch.tensor(special, dtype=torch.uint8) | torch.tensor(begins, dtype=torch.uint8)


def fix_end_of_loading() -> None:
    """The thread that loads batches ahead ends before the interpreter: PyTorch aborts a thread that still works then
    ("terminate called without an active exception"), so that training that is complete would end with an error."""
    create, consumers = BufferedIterator._create_consumer, WeakSet[BackgroundConsumer]()

    @wraps(create)
    def create_and_remember(self: Any) -> None:
        create(self)
        consumers.add(self._consumer)

    def stop() -> None:
        for consumer in consumers:
            consumer._max_len = 0  # the batch that it is loading is its last
            while consumer.is_alive():
                with suppress(queue.Empty):  # it waits until there is room for the batch
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    BufferedIterator._create_consumer = create_and_remember
    atexit.register(stop)
