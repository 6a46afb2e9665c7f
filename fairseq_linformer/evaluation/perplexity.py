"""Perplexity of a masked language model, with masks that depend on a seed and the text alone: equal for all models."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from ..models.shapes import EMBEDDINGS, max_positions
from ..progress import Progress
from .classifier import DICTIONARY, build_model, check_dictionary, open_checkpoint
from .rows import open_dataset

SEED, MASK_PROB = 1, 0.15


@dataclass(frozen=True)
class Perplexity:
    """
    Attributes:
        perplexity: 2 to the power of ``bits``.
        bits: mean over the masked tokens of the negative log2 of the true token's probability.
        accuracy: share of the masked tokens to which the model gives the highest probability.
        masked, tokens: how many tokens were predicted, and read.
        positions: per block.
        seconds: spent in the model.
    """

    perplexity: float
    bits: float
    accuracy: float
    masked: int
    tokens: int
    positions: int
    seconds: float


def measure(
    checkpoint, data, split: str = "valid", seed: int = SEED, positions: Optional[int] = None,
    mask_prob: float = MASK_PROB, max_tokens: int = 4096, device: str = "cpu",
) -> Perplexity:  # fmt: skip
    """
    Text is cut into blocks of ``positions`` tokens, as by fairseq's ``masked_lm`` with ``--sample-break-mode none``. Of
    the tokens ``mask_prob`` are predicted: 80 % of them are masked, 10 % replaced, 10 % left, however the model was
    trained. The number is ``fairseq-validate``'s with the same seed.

    Args:
        checkpoint: path; of ``linformer_roberta``, of RoBERTa or of the authors.
        data: a folder with ``dict.txt`` and the split, as ``prepare pretraining`` and ``fairseq-preprocess`` write it.
        positions: per block; None for the model's n. Compare models of different n at the same one.

    Raises:
        ValueError: a file is missing or does not fit the others, or an option is out of range.
    """
    data = Path(data)
    found = open_checkpoint(checkpoint)
    n = max_positions(found["model"])
    positions = n if positions is None else positions
    if not 2 <= positions <= n:
        raise ValueError(f"--positions is {positions}; it must be between 2 and the model's {n}")
    if max_tokens < 1:
        raise ValueError(f"--max-tokens is {max_tokens}; it must be at least 1")
    if not 0 <= seed < 1 << 32:
        raise ValueError(f"--seed is {seed}; it must be from 0 to {(1 << 32) - 1}")
    if not 0 < mask_prob < 1:
        raise ValueError(f"--mask-prob is {mask_prob}; it must be above 0 and below 1")
    entries, beside = found["model"][EMBEDDINGS].size(0), Path(checkpoint).parent / DICTIONARY
    check_dictionary(data / DICTIONARY, entries, checkpoint, "it lies beside the data", same_as=[beside])
    open_dataset(data / split)
    model = build_model(found).to(device).eval()
    config = MaskedLMConfig(data=str(data), tokens_per_sample=positions, mask_prob=mask_prob, seed=seed)
    task = MaskedLMTask.setup_task(OmegaConf.structured(config))
    task.load_dataset(split)
    iterator = task.get_batch_iterator(
        task.dataset(split), max_tokens=max(max_tokens, positions), max_positions=positions
    )
    batches = iterator.next_epoch_itr(shuffle=False)
    bits = right = masked = tokens = 0
    seconds = 0.0
    with Progress("predicting", len(batches), "batches") as progress, torch.inference_mode():
        for sample in batches:
            begun = time.perf_counter()
            is_masked = sample["target"].ne(task.source_dictionary.pad()).to(device)
            if is_masked.any():
                logits = model(sample["net_input"]["src_tokens"].to(device), masked_tokens=is_masked)[0].float()
                targets = sample["target"].to(device)[is_masked]
                bits += float(F.cross_entropy(logits, targets, reduction="none").double().sum()) / math.log(2)
                right += int((logits.argmax(-1) == targets).sum())
                masked += len(targets)
            seconds += time.perf_counter() - begun
            tokens += sample["ntokens"]
            progress.add(1)
    if not masked:
        raise ValueError(f"{data} has too little text in {split}: none of its tokens is masked")
    if not math.isfinite(bits):
        raise ValueError(f"{checkpoint} gives a loss that is not finite; its weights are damaged")
    return Perplexity(2 ** (bits / masked), bits / masked, right / masked, masked, int(tokens), positions, seconds)
