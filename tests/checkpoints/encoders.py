"""Tiny encoders of ``transformers``, with random weights and the tokenizer of their family."""

import json

import torch

TEXTS = ("The lowest tide was new!", "new", "Low, newer tides: café")
WORDS = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! , : the low ##est ##er new tide ##s was and told slow ##ly cafe"
).split()
SIZES = dict(num_hidden_layers=2, num_attention_heads=4)


def save_encoder(folder, family, head, max_positions=32):
    """Save an encoder, with or without masked LM head, and its tokenizer; returns the folder."""
    import transformers

    torch.manual_seed(0)
    if family == "roberta":
        _save_bpe(folder)
        vocab_size = len(json.loads((folder / "vocab.json").read_text()))
        config = transformers.RobertaConfig(
            **SIZES,
            **dict(hidden_size=16, intermediate_size=32, vocab_size=vocab_size, type_vocab_size=1),
            max_position_embeddings=max_positions + 2,
            layer_norm_eps=1e-5,
        )
    else:
        tokenizer = transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)})
        tokenizer.save_pretrained(folder)
        if family == "bert":
            config = transformers.BertConfig(
                **SIZES,
                **dict(hidden_size=16, intermediate_size=32, vocab_size=len(WORDS)),
                max_position_embeddings=max_positions,
            )
        else:
            config = transformers.DistilBertConfig(
                n_layers=2,
                n_heads=4,
                dim=16,
                hidden_dim=32,
                vocab_size=len(WORDS),
                max_position_embeddings=max_positions,
            )
    model = transformers.AutoModelForMaskedLM.from_config(config)
    for name, parameter in model.named_parameters():
        # Embeddings as small as a trained BERT's, where the epsilon matters.
        torch.nn.init.normal_(parameter, std=0.02 if "embeddings" in name else 0.3)
    model.eval()
    (model if head else model.base_model).save_pretrained(folder)
    return folder


def _save_bpe(folder):
    """RoBERTa's byte-level BPE with a few merges, in the order of fairseq's dictionary."""
    import transformers

    from fairseq_linformer.data.tokenizer import bytes_of_symbols

    merges = [("l", "o"), ("lo", "w"), ("n", "e"), ("ne", "w"), ("Ġ", "t")]
    symbols = [*bytes_of_symbols(), *("".join(pair) for pair in merges)]
    # RoBERTa's IDs are in the order of frequency, not of the merges.
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(symbols), "<|endoftext|>", "madeupword0000", "<mask>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    tokenizer = transformers.RobertaTokenizerFast(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), model_max_length=32
    )
    tokenizer.save_pretrained(folder)
