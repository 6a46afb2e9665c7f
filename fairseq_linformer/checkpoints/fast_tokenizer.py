"""A ``tokenizer.json`` with exactly the token IDs of the slow tokenizer, for GPT-2's BPE and for BPE of sentencepiece.

It gives every piece one ID, so the dictionary must have all pieces. For unigram models of sentencepiece there is none:
``tokenizers`` breaks ties of scores in another order, so one of 10,000 lines of Wikipedia has other IDs.
"""

import json
from collections.abc import Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from ..huggingface.tokenization_linformer import FIRST_SYMBOLS, MASK, ByteLevelBPE, LinformerTokenizer
from .fast_sentencepiece import build_bpe

# GPT-2's dictionary of pieces has it, its merges do not produce it, and RoBERTa's dictionary lacks it.
_UNUSED = {"<|endoftext|>"}


def build_fast_tokenizer(slow: LinformerTokenizer) -> PreTrainedTokenizerFast:
    """The fast tokenizer with the IDs of ``slow``.

    Raises:
        ValueError: there is none; the message is the reason.
    """
    if isinstance(slow.pieces, ByteLevelBPE):
        tokenizer = _build_byte_level(slow.pieces, slow.ids)
    else:
        tokenizer = build_bpe(slow.pieces.processor.serialized_model_proto(), slow.ids)
    # The space before <mask> belongs to the masked word, as in the slow tokenizer.
    mask = AddedToken(MASK, lstrip=True, normalized=False, special=True)
    tokenizer.add_special_tokens([*(AddedToken(each, normalized=False, special=True) for each in FIRST_SYMBOLS), mask])
    bos, pad, eos, unk = FIRST_SYMBOLS
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B:0 {eos}:0",
        special_tokens=[(symbol, slow.ids[symbol]) for symbol in (bos, eos)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **dict(bos_token=bos, cls_token=bos, pad_token=pad, eos_token=eos, sep_token=eos, unk_token=unk),
        mask_token=mask,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=slow.model_max_length,
        clean_up_tokenization_spaces=False,
    )


def _build_byte_level(pieces: ByteLevelBPE, ids: Mapping[str, int]) -> Tokenizer:
    model = json.loads(pieces.tokenizer.to_str())["model"]
    missing = sorted(model["vocab"].keys() - ids.keys() - _UNUSED)
    if missing:
        raise ValueError(f"the dictionary lacks {len(missing):,} pieces of the BPE, such as {missing[0]!r}")
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=dict(ids), merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
