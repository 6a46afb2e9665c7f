"""Tiny encoders of ``transformers``, with random weights and the tokenizer of their family."""

import torch

TEXTS = ("The lowest tide was new!", "new", "Low, newer tides: café")
WORDS = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! , : the low ##est ##er new tide ##s was and told slow ##ly cafe"
).split()
SIZES = dict(num_hidden_layers=2, num_attention_heads=4)


PIECES = "▁ ▁the ▁low est er ▁new ▁tide s ! , : ▁was c a f é l o w n e t i d T h L".split()
"""Pieces of a unigram model, by falling score."""


def build_tokenizer(family):
    """A small tokenizer of ``transformers``, as that of the family."""
    import transformers

    if family in ("roberta", "data2vec-text"):
        return _build_bpe()
    if family in ("xlm-roberta", "camembert"):
        symbols = ["<s>", "<pad>", "</s>", "<unk>"]
        if family == "camembert":
            symbols = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
        vocab = [*((symbol, 0.0) for symbol in symbols), *((piece, -1.0 - i) for i, piece in enumerate(PIECES))]
        vocab.append(("<mask>", 0.0))
        name = {"xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer"}[family]
        return getattr(transformers, name)(vocab=vocab, model_max_length=32)
    return transformers.BertTokenizerFast(
        vocab={word: i for i, word in enumerate(WORDS)}, do_lower_case=family != "bert-cased"
    )


def save_encoder(folder, family, head, max_positions=32):
    """Save an encoder, with or without masked LM head, and its tokenizer; returns the folder."""
    import transformers

    torch.manual_seed(0)
    tokenizer = build_tokenizer(family)
    tokenizer.save_pretrained(folder)
    sizes = dict(vocab_size=len(tokenizer), **SIZES)
    if family == "distilbert":
        config = transformers.DistilBertConfig(**sizes, dim=16, hidden_dim=32, max_position_embeddings=max_positions)
    else:
        sizes |= dict(hidden_size=16, intermediate_size=32, max_position_embeddings=max_positions)
        if family == "electra":
            sizes |= dict(embedding_size=16)
        if family not in ("bert", "electra", "ernie"):
            sizes |= dict(type_vocab_size=1, max_position_embeddings=max_positions + 2, layer_norm_eps=1e-5)
        config = transformers.AutoConfig.for_model(family, **sizes)
    model = transformers.AutoModelForMaskedLM.from_config(config)
    for name, parameter in model.named_parameters():
        # Embeddings as small as a trained BERT's, where the epsilon matters.
        torch.nn.init.normal_(parameter, std=0.02 if "embeddings" in name else 0.3)
    model.eval()
    (model if head else model.base_model).save_pretrained(folder)
    return folder


def _build_bpe():
    """RoBERTa's byte-level BPE with a few merges, in the order of fairseq's dictionary."""
    import transformers
    from tokenizers.pre_tokenizers import ByteLevel

    merges = [("l", "o"), ("lo", "w"), ("n", "e"), ("ne", "w"), ("\u0120", "t")]
    symbols = [*sorted(ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    # RoBERTa's IDs are in the order of frequency, not of the merges.
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(symbols), "<|endoftext|>", "madeupword0000", "<mask>"]
    return transformers.RobertaTokenizerFast(
        vocab={token: i for i, token in enumerate(tokens)}, merges=merges, model_max_length=32
    )
