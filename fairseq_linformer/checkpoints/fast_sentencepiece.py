"""A BPE model of sentencepiece as a tokenizer of ``tokenizers``, with the same pieces for any text."""

from collections.abc import Mapping

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers.convert_slow_tokenizer import generate_merges

from ..huggingface.tokenization_linformer import FIRST_SYMBOLS, MASK
from .sentencepiece_normalizer import RULES, build_normalizer

_SPACE = "\u2581"
_UNKNOWN = FIRST_SYMBOLS[3]


def build_bpe(model: bytes, ids: Mapping[str, int]) -> Tokenizer:
    """Build the fast tokenizer of a BPE model, without special tokens.

    One difference remains: if a model lacks the characters of ``<s>``, sentencepiece normalizes its fullwidth form to
    that symbol, and this tokenizer returns ``<unk>``. The same holds for the other special symbols.

    Args:
        model: content of the file.
        ids: token IDs of the entries of the dictionary.

    Raises:
        ValueError: no tokenizer has the same pieces; the message is the reason.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    _check_settings(proto)
    piece_types = sentencepiece_model_pb2.ModelProto.SentencePiece
    kinds = {piece.type for piece in proto.pieces}
    if other := kinds - {piece_types.NORMAL, piece_types.UNKNOWN, piece_types.CONTROL}:
        names = ", ".join(piece_types.Type.Name(kind).lower().replace("_", "-") for kind in sorted(other))
        raise ValueError(f"the sentencepiece model has {names} pieces")
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece_types.NORMAL}
    if missing := sorted(scores.keys() - ids.keys()):
        raise ValueError(
            f"the dictionary lacks {len(missing):,} pieces of the sentencepiece model, such as {missing[0]!r}"
        )
    if inner := sorted(piece for piece in scores if _SPACE in piece[1:]):
        raise ValueError(f"the sentencepiece model has {len(inner):,} pieces of several words, such as {inner[0]!r}")
    # sentencepiece joins adjacent unknown characters, and fairseq finds the result in the dictionary.
    others = ids.keys() - scores.keys() - {*FIRST_SYMBOLS, MASK}
    if unknown := sorted(entry for entry in others if scores.keys().isdisjoint(entry)):
        raise ValueError(
            f"the dictionary has {len(unknown):,} entries of characters that the sentencepiece model does not know, "
            f"such as {unknown[0]!r}"
        )
    vocabulary = {piece: ids[piece] for piece in scores}
    tokenizer = Tokenizer(
        models.BPE(vocab=dict(ids), merges=generate_merges(vocabulary, scores), unk_token=_UNKNOWN, fuse_unk=True)
    )
    tokenizer.normalizer = build_normalizer(model)
    # fairseq splits pieces at white space, and U+0085 is the only other one that is left after the normalization.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always"), pre_tokenizers.Split("\x85", "removed")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement=_SPACE, prepend_scheme="always")
    return tokenizer


def _check_settings(proto) -> None:
    """
    Raises:
        ValueError: ``tokenizers`` does not have the settings of the model.
    """
    kind = proto.trainer_spec.ModelType.Name(proto.trainer_spec.model_type).lower()
    if kind != "bpe":
        raise ValueError(f"tokenizers and sentencepiece do not give all text the same token IDs for a {kind} model")
    rules = proto.normalizer_spec
    if rules.name not in RULES:
        raise ValueError(f"the sentencepiece model normalizes by {rules.name or 'no name'}, not {' or '.join(RULES)}")
    usual = rules.add_dummy_prefix and rules.remove_extra_whitespaces and rules.escape_whitespaces
    if not usual or proto.trainer_spec.treat_whitespace_as_suffix:
        raise ValueError("the sentencepiece model treats spaces differently from the default")
