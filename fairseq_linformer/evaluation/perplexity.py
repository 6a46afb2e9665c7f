"""Perplexity of a masked language model, with masks that depend only on the seed and the text, not on the model."""

import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from ..checkpoints.models import build_model, open_checkpoint
from ..data.tokenizer_files import DICTIONARY
from ..models.datasets import check_dataset
from ..models.dictionaries import check_dictionary
from ..models.state_dicts import EMBEDDINGS, max_positions
from ..progress import progress_bar
from .encoded_rows import check_split


def compute_perplexity(
    checkpoint,
    data,
    split: str = "valid",
    seed: int = 1,
    tokens_per_sample: int | None = None,
    mask_prob: float = 0.15,
    max_tokens: int = 4096,
    device: str = "cpu",
) -> dict[str, Any]:
    """Compute the perplexity that ``fairseq-validate`` reports with the same seed.

    The text is split as by ``open_blocks``. A share ``mask_prob`` of the tokens is predicted: of these 80 % are masked,
    10 % replaced and 10 % unchanged, regardless of how the model was trained.

    Args:
        checkpoint: path of a checkpoint of ``linformer_roberta``, RoBERTa or the authors' code.
        data: folder with ``dict.txt`` and the split, as written by ``prepare pretraining`` or ``fairseq-preprocess``.
        tokens_per_sample: tokens per block; None for n. To compare models of different n, use the same value.

    Returns:
        ``perplexity``, 2 to the power of ``bits``; ``bits``, the mean negative log2 probability of the true token per
        masked token; ``accuracy``, the share of the masked tokens that the model ranks first; ``masked`` and
        ``tokens``, the number of predicted and of all tokens; ``positions``; ``seconds`` spent in the model; and its
        number of ``parameters``.
    """
    data = Path(data)
    state = open_checkpoint(checkpoint)
    n = max_positions(state["model"])
    positions = n if tokens_per_sample is None else tokens_per_sample
    if not 2 <= positions <= n:
        raise ValueError(f"--tokens-per-sample must be between 2 and the model's n ({n}), got {positions}")
    if not 0 < mask_prob < 1:
        raise ValueError(f"--mask-prob must be above 0 and below 1, got {mask_prob}")
    vocab_size, model_dictionary = state["model"][EMBEDDINGS].size(0), Path(checkpoint).parent / DICTIONARY
    hint = "it must be in the data folder"
    check_dictionary(data / DICTIONARY, vocab_size, checkpoint, hint, same_as=[model_dictionary])
    check_split(data, split)
    check_dataset(data / split)
    model = build_model(state).to(device).eval()
    batches, pad = open_blocks(data, split, positions, seed, max_tokens, mask_prob)
    bits = seconds = 0.0
    num_correct = masked = tokens = 0
    with progress_bar("perplexity", len(batches), "batch") as progress, torch.inference_mode():
        for sample in batches:
            start = time.perf_counter()
            is_masked = sample["target"].ne(pad).to(device)
            if is_masked.any():
                logits = model(sample["net_input"]["src_tokens"].to(device), masked_tokens=is_masked)[0].float()
                targets = sample["target"].to(device)[is_masked]
                bits += float(F.cross_entropy(logits, targets, reduction="none").double().sum()) / math.log(2)
                num_correct += int((logits.argmax(-1) == targets).sum())
                masked += len(targets)
            seconds += time.perf_counter() - start
            tokens += sample["ntokens"]
            progress.update(1)
    if not masked:
        raise ValueError(f"{split} of {data} is too short: none of its tokens is masked")
    if not math.isfinite(bits):
        raise ValueError(f"the loss of {checkpoint} is NaN or infinite; its weights are damaged")
    return {
        "perplexity": 2 ** (bits / masked),
        "bits": bits / masked,
        "accuracy": num_correct / masked,
        "masked": masked,
        "tokens": int(tokens),
        "positions": positions,
        "seconds": seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def open_blocks(data, split: str, n: int, seed: int, max_tokens: int, mask_prob: float = 0.15) -> tuple[Any, int]:
    """The batches of a split, masked and in blocks of n tokens, as by fairseq's ``masked_lm`` with
    ``--sample-break-mode none``; and the index of padding. Blocks of equal length are in a random order."""
    config = MaskedLMConfig(data=str(data), tokens_per_sample=n, mask_prob=mask_prob, seed=seed)
    task = MaskedLMTask.setup_task(OmegaConf.structured(config))
    task.load_dataset(split)
    iterator = task.get_batch_iterator(task.dataset(split), max_tokens=max(max_tokens, n), max_positions=n)
    return iterator.next_epoch_itr(shuffle=False), task.source_dictionary.pad()


def format_perplexity(result: dict[str, Any]) -> str:
    """The printed report of a result of ``compute_perplexity``."""
    rate = result["tokens"] / max(result["seconds"], 1e-9)
    return (
        f"perplexity {result['perplexity']:.2f} ({result['bits']:.4f} bits per masked token), "
        f"accuracy {100 * result['accuracy']:.2f} %: {result['masked']:,} of {result['tokens']:,} tokens masked, "
        f"in blocks of {result['positions']}, {rate:,.0f} tokens/s"
    )
