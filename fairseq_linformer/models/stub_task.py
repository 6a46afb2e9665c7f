"""A fairseq task without data, for building models and criterions."""

from .state_dicts import PADDING_IDX

VOCAB_SIZE = 50265
"""Size of RoBERTa's dictionary, with <mask>."""


class StubTask:
    """The attributes of a fairseq task that ``build_model`` and ``build_criterion`` use.

    Args:
        vocab_size: size of the dictionary, with special symbols.
        max_positions: n.
    """

    def __init__(self, vocab_size: int, max_positions: int):
        self.source_dictionary = self.target_dictionary = _StubDictionary(vocab_size)
        self._max_positions = max_positions

    def max_positions(self) -> int:
        return self._max_positions


class _StubDictionary:
    def __init__(self, vocab_size: int):
        self._vocab_size = vocab_size

    def __len__(self) -> int:
        return self._vocab_size

    def pad(self) -> int:
        return PADDING_IDX
