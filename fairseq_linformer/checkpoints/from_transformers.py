"""Encoders of ``transformers`` with their vocabulary as checkpoints of fairseq's RoBERTa."""

import sys
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

from ..config import LinformerConfig
from ..data.tokenizer_files import DICTIONARY, TOKENIZER_JSON
from ..data.tokenizer_json import FIRST_ID, SYMBOLS, order_tokens, read_settings, rewrite
from ..models.state_dicts import EMBEDDINGS, OUTPUT_BIAS, OUTPUT_EMBEDDINGS
from .files import Files, build_checkpoint, put_modules
from .sentence_transformers import needs_lower_case, read_modules
from .transformers_encoder import read_encoder
from .transformers_loading import load_from_transformers


def read_transformers(name: str, config: Any) -> tuple[dict[str, Any], Files]:
    """Read BERT, RoBERTa or an encoder with their layers as a checkpoint of fairseq, with ``dict.txt``, tokenizer
    and modules of ``sentence-transformers``.

    Features are those of ``transformers``. If the layer norms have an epsilon other than fairseq's 1e-5, the
    architecture is ``linformer_roberta`` with full attention instead of ``roberta``.

    Args:
        name: folder with safetensors and a fast tokenizer, or name of a model on the hub.
        config: from ``load_config``.
    """
    state, options, origin = read_encoder(name, config)
    modules = read_modules(name)
    order, files = read_vocabulary(name, state[EMBEDDINGS].size(0), needs_lower_case(modules))
    for key in (EMBEDDINGS, OUTPUT_EMBEDDINGS, OUTPUT_BIAS):
        state[key] = state[key][order]
    if not options["untie_weights_roberta"]:
        state[OUTPUT_EMBEDDINGS] = state[EMBEDDINGS]
    model: Any = {"_name": "linformer_roberta", "projection": "none", **options}
    if options["layer_norm_eps"] == LinformerConfig.layer_norm_eps:
        del options["layer_norm_eps"]
        model = Namespace(_name="roberta", arch="roberta", **options)  # fairseq's model has no dataclass
    cfg = {
        "model": model,
        "task": {"_name": "masked_lm", "data": "", "tokens_per_sample": options["max_positions"]},
        "criterion": {"_name": "masked_lm", "tpu": False},
    }
    return build_checkpoint(cfg, state, {"imported": origin}), files | put_modules(modules)


def read_vocabulary(name: str, vocab_size: int, lower_case: bool = False) -> tuple[Tensor, Files]:
    """Read the vocabulary of a fast tokenizer, for a model with ``vocab_size`` embeddings.

    Spare embeddings, after those of the tokens, are left out.

    Args:
        lower_case: texts are in lower case before anything else.

    Returns:
        (V,) token IDs of ``transformers`` in the order of fairseq's dictionary: <s>, <pad>, </s>, <unk>, the others,
        <mask>; and ``dict.txt`` and ``tokenizer.json`` in this order.
    """
    from transformers import AutoTokenizer

    tokenizer, label = load_from_transformers(AutoTokenizer, name), f"the tokenizer of {name}"
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"{label} must be a fast one, with a tokenizer.json, got {type(tokenizer).__name__}")
    settings, ids = read_settings(backend.to_str().encode(), label)
    if len(ids) > vocab_size:
        raise ValueError(
            f"{label} must have at most one token per embedding of the model ({vocab_size:,}), got {len(ids):,} tokens"
        )
    if spare := vocab_size - len(ids):
        print(f"{name}: {spare:,} embeddings have no token and are left out", file=sys.stderr)
    if lower_case:
        normalizers = [{"type": "Lowercase"}, *filter(None, [settings.get("normalizer")])]
        settings["normalizer"] = {"type": "Sequence", "normalizers": normalizers}
    special = _find_special(tokenizer, label)
    tokens = order_tokens(ids, label, special)
    entries = tokens[FIRST_ID:-1]
    return torch.tensor([ids[token] for token in tokens]), {
        DICTIONARY: "".join(f"{entry} 1\n" for entry in entries).encode(),
        TOKENIZER_JSON: rewrite(settings, tokens, [*SYMBOLS[:FIRST_ID], *entries, SYMBOLS[-1]]),
    }


def _find_special(tokenizer: Any, label: str) -> list[str]:
    """The tokens for fairseq's symbols."""
    special = [getattr(tokenizer, f"{kind}_token") for kind in ("cls", "pad", "sep", "unk", "mask")]
    if None in special or len(set(special)) < len(special):
        raise ValueError(f"{label} must have five different tokens for cls, pad, sep, unk and mask")
    encoded = tokenizer("a")["input_ids"]
    if (encoded[0], encoded[-1]) != (tokenizer.cls_token_id, tokenizer.sep_token_id):
        raise ValueError(f"{label} must add {special[0]} before and {special[2]} after a text, as fairseq does")
    return special
