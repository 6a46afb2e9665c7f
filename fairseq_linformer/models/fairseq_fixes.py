"""What is wrong in fairseq for everybody, corrected when this module is imported. Each fix names its fault.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from fairseq.criterions import sentence_prediction
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

from ..errors import first_line
from ..files import is_read_error
from .state_dicts import head_names

NUM_RANKS_KEY = "num_shards"
"""Key of the number of ranks in the state of an epoch, in checkpoints."""
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
"""Environment variables that torchrun sets."""
_REJECTED_TYPE = re.compile(r"[Uu]nsupported (?:global: GLOBAL|GLOBAL|class) (\S+)")
_ALLOCATION = re.compile(r"Tried to allocate ([\d.]+ \w+)")


def _replaces(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put the decorated function, whose first argument is the original, in place of ``owner.name``."""
    original = getattr(owner, name)

    def replace(replacement: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original, updated=())
        def replaced(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        setattr(owner, name, replaced)
        return replacement

    return replace


# Epochs


@_replaces(EpochBatchIterator, "__init__")
def init_without_reuse(init, self, *args, **kwargs):
    """Masks are new in every epoch: fairseq keeps its data loader processes, whose copy of the dataset stays in the
    first epoch."""
    init(self, *args, **kwargs)
    self.reuse_dataloader = self.persistent_workers = False


@_replaces(EpochBatchIterator, "state_dict")
def state_dict_with_ranks(state_dict, self):
    """Training resumes with any number of ranks: fairseq counts the batches that each rank has read, so that another
    number would repeat or skip a part of the epoch."""
    return {**state_dict(self), NUM_RANKS_KEY: self.num_shards}


@_replaces(EpochBatchIterator, "load_state_dict")
def load_state_dict_with_ranks(load_state_dict, self, state):
    """See ``state_dict_with_ranks``."""
    # The batches of an epoch have one order, and each of N ranks takes every N-th.
    num_batches = state.get("iterations_in_epoch", 0) * state.get(NUM_RANKS_KEY, self.num_shards)
    load_state_dict(self, {**state, "iterations_in_epoch": num_batches // self.num_shards})


# Checkpoints


# PyTorch rejects these types in fairseq's checkpoints: NumPy's numbers (best metrics), what the first rank sends to the
# others when training resumes, and settings. All are plain data; other types stay rejected.
_SCALAR: Any = np.float64(0).__reduce__()[0]  # its module depends on NumPy's version
_NUMBERS = [_SCALAR, np.dtype, type(np.dtype(np.float64)), type(np.dtype(np.float32))]
_CONTAINERS = [collections.defaultdict, dict, list, int, typing.Any, distributed_utils._TensorPlaceholder]
_SETTINGS = [argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode]
_SETTINGS += [omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
torch.serialization.add_safe_globals([*_NUMBERS, *_CONTAINERS, *_SETTINGS])


@_replaces(checkpoint_utils, "load_checkpoint_to_cpu")
def load_as_data(load, path, *args, **kwargs):
    """Checkpoints load, as data: OmegaConf replaces ``${oc.env:NAME}`` in their settings by the environment."""
    with _explain_failures(path, "a fairseq checkpoint"):
        state = load(path, *args, **kwargs)
    check_settings(path, state)
    return state


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
    except Exception as error:  # torch raises many types of errors on files that are not pickles
        if is_read_error(error):
            raise
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise ValueError(f"{path} does not fit into the memory, or is damaged: {first_line(error)}") from None
        if code := _REJECTED_TYPE.search(str(error)):
            raise ValueError(
                f"{path} contains code ({code[1]}); a checkpoint may contain only weights and settings"
            ) from None
        raise ValueError(f"{path} is truncated, or is not {expected}") from None


def _check_uncompressed(path) -> None:
    """Raise ValueError if a zip archive is compressed, and could unpack to any size; torch.save does not compress."""
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError):
            raise ValueError(f"{path} is truncated, or is not a file of torch.save") from None
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError(f"{path} must not be compressed, as torch.save writes it")


def check_settings(path, checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError if a setting of a checkpoint has an interpolation, which can read environment variables."""
    for key in ("cfg", "args"):
        # OmegaConf's containers print interpolations unresolved.
        if found := re.search(r"\$\{[^}]{,100}\}?", str(checkpoint.get(key))):
            raise ValueError(f"the settings of {path} must not have interpolations, got {found[0]!r}")


def replace_eval() -> None:
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


@_replaces(Trainer, "load_checkpoint")
def load_if_it_fits(load, self, filename, *args, **kwargs):
    """A checkpoint that training starts from must exist and have the model's options: fairseq starts from random
    parameters without it, and compares shapes only."""
    if not PathManager.isfile(filename):
        options = self.cfg.checkpoint
        if options.restore_file != "checkpoint_last.pt" or filename == options.continue_once:
            raise ValueError(f"training must start from a checkpoint, got {filename}, which does not exist")
    elif hasattr(self.model, "check_options"):  # the models of this plugin
        self.model.check_options(read_options(filename))
    return load(self, filename, *args, **kwargs)


def read_options(path) -> dict[str, Any]:
    """The options of the model of a fairseq checkpoint. Its tensors stay in the file."""
    checkpoint = load_weights_only(path, mmap=True)
    if not isinstance(checkpoint, dict) or not {"cfg", "args"} & checkpoint.keys():
        raise ValueError(f"{path} must be a fairseq checkpoint; `fairseq-linformer convert` makes one of transformers'")
    check_settings(path, checkpoint)
    options = checkpoint["cfg"]["model"] if checkpoint.get("cfg") else checkpoint["args"]
    return dict(vars(options) if isinstance(options, argparse.Namespace) else options)


@_replaces(checkpoint_utils, "load_model_ensemble_and_task")
def load_with_heads(load, filenames, *args, **kwargs):
    """A checkpoint to evaluate must have its task's classification head: fairseq evaluates a random one instead."""
    models, cfg, task = load(filenames, *args, **kwargs)
    for filename, model in zip(filenames, models):
        needed = set(getattr(model, "classification_heads", ()))
        if needed and os.path.isfile(filename):  # else it has several parts
            missing = needed.difference(head_names(load_weights_only(filename, mmap=True)["model"]))
            if missing:
                raise ValueError(f"{filename} must have its task's classification head {missing.pop()!r}")
    return models, cfg, task


@_replaces(PathManager, "copy")
def copy_and_rename(copy, source, target, overwrite=False):
    """``checkpoint_best.pt`` and ``checkpoint_last.pt`` are complete: fairseq copies to them in place, so that a killed
    process would leave a damaged one."""
    copied = copy(source, f"{target}.tmp", overwrite=True)
    os.replace(f"{target}.tmp", target)
    return copied


@_replaces(checkpoint_utils, "save_checkpoint")
def save_without_nan_as_best(save, cfg, trainer, epoch_itr, metric, *args):
    """NaN never becomes the best metric: in fairseq any later validation would replace its ``checkpoint_best.pt``, and
    none would count as better for ``--patience``."""
    is_usable = metric is not None and math.isfinite(metric)
    return save(cfg, trainer, epoch_itr, metric if is_usable else None, *args)


@_replaces(train, "should_stop_early")
def stop_with_nan_as_worst(should_stop, cfg, metric):
    """See ``save_without_nan_as_best``."""
    if metric is not None and not math.isfinite(metric):
        metric = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
    return should_stop(cfg, metric)


@_replaces(sentence_prediction, "pearson_and_spearman")
def correlate_rows(correlate, preds, labels):
    """A validation batch of one row ends no training: fairseq logs the correlation of each batch, too, for which SciPy
    needs two rows."""
    if len(preds) > 1:
        return correlate(preds, labels)
    return dict.fromkeys(("pearson", "spearmanr", "corr"), math.nan)


# Several ranks validate with correlations: fairseq would sum the lists of predictions of all ranks.
cast(Any, sentence_prediction.SentencePredictionCriterion).logging_outputs_can_be_summed = lambda self: (
    self.training or not self.keep_pred_and_targ
)


# Memory and precision


@_replaces(Trainer, "train_step")
def train_step_or_end(train_step, self, samples, raise_oom=False):
    """The first batch that does not fit ends training: fairseq would skip every such batch, and never end."""
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


@_replaces(distributed_utils, "call_main")
def call_main_without_tpu(call_main, cfg, main, **kwargs):
    """``--bf16`` means bf16 on a GPU: fairseq takes it for a TPU and fails without one."""
    cfg.common.tpu = cfg.common.tpu and "--tpu" in sys.argv
    return call_main(cfg, main, **kwargs)


def _is_on_cpu(common: Any) -> bool:
    """Whether the configuration group ``common`` trains on a CPU."""
    return not common.tpu and (common.cpu or not torch.cuda.is_available())


@_replaces(Trainer, "__init__")
def init_without_fp16_on_cpu(init, self, cfg, *args, **kwargs):
    """``--fp16`` is rejected on a CPU, where fairseq fails in the first update."""
    if cfg.common.fp16 and _is_on_cpu(cfg.common):
        raise ValueError("--fp16 needs a GPU; on a CPU use --amp (YAML: common.fp16=false common.amp=true)")
    init(self, cfg, *args, **kwargs)


@_replaces(FairseqTask, "train_step")
def train_step_on_cpu(train_step, self, sample, model, criterion, optimizer, *args, **options):
    """``--amp`` computes in bf16 on a CPU: fairseq's autocast is CUDA's, so that training stays in single precision.

    bf16 has the range of single precision and needs no gradient scaler, which would hide non-finite gradients: they end
    training, as without ``--amp``.
    """
    if isinstance(optimizer, AMPOptimizer) and not next(model.parameters()).is_cuda:
        _exempt_attention()
        criterion = partial(_run_in_cpu_bf16, criterion)
        if optimizer.scaler.is_enabled():  # on a machine with a GPU
            optimizer._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)
    return train_step(self, sample, model, criterion, optimizer, *args, **options)


@_replaces(AMPOptimizer, "clip_grad_norm")
def clip_grad_norm_on_cpu(clip_grad_norm, self, max_norm, aggregate_norm_fn=None):
    """See ``train_step_on_cpu``."""
    if self.scaler.is_enabled():
        return clip_grad_norm(self, max_norm, aggregate_norm_fn)
    norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
    if not torch.isfinite(norm).all():
        raise FloatingPointError("gradients are Nan/Inf")  # fairseq's words
    return norm


@_replaces(AMPOptimizer, "step")
def step_unscaled_once(_, self):
    """``--amp`` on a GPU divides the gradients by the loss scale once: fairseq's clipping does so for PyTorch's
    optimizer, and its step again for its own wrapper, so that Adam's epsilon is in effect as many times as large."""
    self.scaler.step(self.optimizer)
    self.scaler.update()


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

    @_replaces(F, "scaled_dot_product_attention")
    def attention_without_autocast(attention, *args, **options):
        if args[0].device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return attention(*args, **options)
        with torch.autocast("cpu", enabled=False):
            return attention(*map(_float, args), **{name: _float(value) for name, value in options.items()})


def _float(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


# Processes


def _is_under_torchrun() -> bool:
    return all(name in os.environ for name in TORCHRUN) and int(os.environ["WORLD_SIZE"]) > 1


@_replaces(distributed_utils, "call_main")
def call_main_as_rank(call_main, cfg, main, **kwargs):
    """torchrun starts one job on CPUs: fairseq, which counts GPUs, starts a job in each process, all of which write the
    same checkpoints, or divides by 0. ``fairseq-hydra-train`` imports the plugin too late, and is rejected."""
    options = cfg.distributed_training
    if _is_under_torchrun() and options.distributed_init_method is None and _is_on_cpu(cfg.common):
        options.distributed_init_method = "env://"
        options.distributed_world_size = int(os.environ["WORLD_SIZE"])
        options.distributed_rank = int(os.environ["RANK"])
        options.distributed_backend = "gloo"  # the default, nccl, is for GPUs
        options.distributed_no_spawn = True
    return call_main(cfg, main, **kwargs)


@_replaces(Trainer, "__init__")
def init_as_rank(init, self, *args, **kwargs):
    """See ``call_main_as_rank``."""
    if _is_under_torchrun() and not dist.is_initialized():
        raise ValueError(
            "fairseq-hydra-train under torchrun needs distributed_training.distributed_init_method=env://, and its "
            "distributed_world_size, distributed_rank='${oc.env:RANK}', distributed_no_spawn=true, and "
            "distributed_backend=gloo on CPUs"
        )
    init(self, *args, **kwargs)


@_replaces(distributed_fairseq_model, "DistributedDataParallel")
def wrap_on_its_device(wrap, module, device_ids, output_device, **options):
    """``--ddp-backend pytorch_ddp``, the default, works on CPUs: fairseq passes device IDs, which PyTorch rejects."""
    if not next(module.parameters()).is_cuda:
        device_ids = output_device = None
    return wrap(module, device_ids, output_device, **options)


@_replaces(distributed_utils, "all_gather_list")
def gather_without_gpu(gather, data, group=None, max_size=16384):
    """Ranks on CPUs exchange logs that cannot be summed, and those of ``fairseq-validate``: fairseq's buffers are on
    GPUs."""
    if torch.cuda.is_available():
        return gather(data, group, max_size)
    group = group or distributed_utils.get_global_group()
    gathered = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, utils.move_to_cpu(data), group)
    return gathered


# Others


# ``--sample-break-mode eos`` and others work: NumPy 2 has removed names that fairseq uses.
vars(np).update(compat=SimpleNamespace(long=np.int64), int=int, float=float)

# fairseq's task reads options of ``--mask-whole-words`` that it lacks.
cast(Any, masked_lm.MaskedLMTask).args = property(lambda self: self.cfg)


@_replaces(masked_lm, "get_whole_word_mask")
def mask_whole_words(_, cfg, dictionary):
    """``--mask-whole-words`` works. Words are those of the tokenizer."""
    return find_beginnings(cfg.data.split(os.pathsep)[0], dictionary)


def find_beginnings(data, dictionary: Any) -> Tensor:
    """(V,) 1 for special tokens, and for those that begin a word, 0 for those that continue it.

    Args:
        data: folder of the dictionary, with ``encoder.json`` if its entries are the token IDs of GPT-2's BPE.
    """
    gpt2 = Path(data) / "encoder.json"
    pieces = {str(i): piece for piece, i in json.loads(gpt2.read_text()).items()} if gpt2.is_file() else {}
    symbols = [pieces.get(symbol, symbol) for symbol in dictionary.symbols]
    # WordPiece marks the tokens that continue a word, sentencepiece and byte-level BPE the space before one. Some of
    # GPT-2's tokens are number signs.
    continues, begins = ([symbol.startswith(marks) for symbol in symbols] for marks in ("##", ("\u2581", "\u0120")))
    if sum(continues) > sum(begins):
        begins = [not each for each in continues]
    if not any(begins):
        raise ValueError(f"--mask-whole-words needs the tokenizer's encoder.json in {data}")
    special = [i < dictionary.nspecial or symbol == "<mask>" for i, symbol in enumerate(symbols)]
    return torch.tensor(special, dtype=torch.uint8) | torch.tensor(begins, dtype=torch.uint8)


_consumers = WeakSet[BackgroundConsumer]()


@_replaces(BufferedIterator, "_create_consumer")
def create_and_remember(create, self):
    """The thread that loads batches ahead ends before the interpreter: PyTorch aborts a thread that still works then
    ("terminate called without an active exception"), so that training that is complete would end with an error."""
    create(self)
    _consumers.add(self._consumer)


@_replaces(train, "validate")
def validate_and_stop_loading(validate, *args):
    """A validation that ``--max-valid-steps`` cuts short leaves no thread: fairseq's has a batch that nobody takes, and
    waits forever."""
    others = set(_consumers)
    losses = validate(*args)
    _stop_loading(set(_consumers) - others)
    return losses


@atexit.register
def _stop_loading(consumers: Iterable[BackgroundConsumer] = _consumers) -> None:
    for consumer in consumers:
        consumer._max_len = 0  # the batch that it is loading is its last
        while consumer.is_alive():
            with suppress(queue.Empty):  # it waits until there is room for the batch
                consumer._queue.get_nowait()
            consumer.join(0.01)
