"""The normalization of sentencepiece, ``nmt_nfkc`` or ``nmt_nfkc_cf``, by normalizers of ``tokenizers``.

sentencepiece maps the longest *sequence* at each position: a single character, or the canonical decomposition (NFD) of
a composed one, also of compatible characters such as fullwidth letters. It does not reorder marks, and does not compose
``ē`` with a further accent. ``normalizers.Precompiled`` has the same map, but looks up the shortest sequence of a
grapheme and drops its other marks. NFKC maps sequences as sentencepiece does, but composes and reorders more. So a
*boundary*, a control character that the map deletes, is inserted before each mark that does not continue a sequence.
Then NFKC and lowercase run, and last ``Precompiled``, for what NFKC leaves: control characters, spaces, letters that
fold to several.
"""

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import sentencepiece
from tokenizers import Regex, normalizers

FOLDED = "nmt_nfkc_cf"
RULES = ("nmt_nfkc", FOLDED)
_BOUNDARY = "\x01"
_LEADS, _VOWELS, _TAILS = (range(*each) for each in ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3)))
"""The jamo of which Hangul syllables are composed."""
_JOINERS = "\u200c\u200d"
"""Not marks, but part of a grapheme."""
_SYLLABLES = range(0xAC00, 0xD7A4)
_TILDE, _DOTTED = ("\uff5e", "\U0010fffd"), ("\u0130", "\U0010fffc")
"""Characters that sentencepiece keeps, but NFKC or lowercase would change, and private ones in their place."""


def build_normalizer(model: bytes) -> normalizers.Normalizer:
    """The normalizer of a sentencepiece model with one of ``RULES``, including that of spaces.

    Args:
        model: content of the file.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    theirs = sentencepiece.SentencePieceNormalizer(
        model_proto=model, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
    )
    lowercase = [normalizers.Replace(*_DOTTED), normalizers.Lowercase(), normalizers.Replace(*reversed(_DOTTED))]
    return normalizers.Sequence(
        [
            normalizers.Replace(*_TILDE),
            normalizers.Replace(Regex(_boundaries(_sequences(theirs.normalize))), _BOUNDARY),
            normalizers.NFKC(),
            *(lowercase if proto.normalizer_spec.name == FOLDED else []),
            normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
            normalizers.Replace(*reversed(_TILDE)),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex("^ | $"), ""),
        ]
    )


def _sequences(normalize: Callable[[str], str]) -> list[str]:
    """Sequences of several characters, except for those of Hangul, that ``normalize`` maps as a whole."""
    decomposed = (unicodedata.normalize("NFD", c) for c in map(chr, range(sys.maxunicode + 1)) if _is_composed(c))
    return [each for each in decomposed if normalize(each) != "".join(map(normalize, each))]


def _is_composed(character: str) -> bool:
    return unicodedata.decomposition(character)[:1] not in ("", "<") and ord(character) not in _SYLLABLES


def _boundaries(sequences: Iterable[str]) -> str:
    """The regular expression of the empty string before a mark or jamo that continues no sequence, inside of a text."""
    compatible = _compatible_characters()
    beginnings = defaultdict(set)
    for sequence in sequences:
        for i in range(1, len(sequence)):
            beginnings[sequence[i]].add("".join(_one_of(each, compatible) for each in sequence[:i]))
    continued = {_one_of(mark, compatible): "|".join(sorted(found)) for mark, found in beginnings.items()}
    leads, vowels, tails = (_one_of(map(chr, jamo), compatible) for jamo in (_LEADS, _VOWELS, _TAILS))
    continued |= {vowels: leads, tails: leads + vowels}
    others = {c for first, found in compatible.items() if _is_mark(first) for c in found if not _is_mark(c)}
    alternatives = [f"(?={mark})(?<!{beginning})" for mark, beginning in continued.items()]
    alternatives.append(f"(?!{'|'.join(continued)})")
    marks = rf"[\p{{M}}{_JOINERS}{''.join(sorted(others))}{vowels[1:-1]}{tails[1:-1]}]"
    return rf"(?!\A)(?={marks})(?:{'|'.join(alternatives)})"


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _one_of(characters: Iterable[str], compatible: Mapping[str, set[str]]) -> str:
    """A class of these and all compatible characters."""
    return f"[{''.join(sorted({c for each in characters for c in {each, *compatible.get(each, ())}}))}]"


def _compatible_characters() -> dict[str, set[str]]:
    """Single characters by the single character that NFKC maps them to."""
    found = defaultdict(set)
    for character in map(chr, range(sys.maxunicode + 1)):
        mapped = unicodedata.normalize("NFKC", character)
        if len(mapped) == 1 and mapped != character:
            found[mapped].add(character)
    return found
