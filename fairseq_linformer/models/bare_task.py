"""A fairseq task without data, for building a model."""

from .shapes import PADDING_IDX


class BareTask:
    """The part of a fairseq task that building a model needs.

    Args:
        entries: size of the dictionary, with special symbols.
        positions: n.
    """

    def __init__(self, entries: int, positions: int):
        self.source_dictionary = _Entries(entries)
        self._positions = positions

    def max_positions(self) -> int:
        return self._positions


class _Entries:
    """The part of its dictionary."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def pad(self) -> int:
        return PADDING_IDX
