"""A model without its data: what building one asks of a fairseq task, and no more."""

from .shapes import PADDING_IDX


class BareTask:
    """As much of a fairseq task as building a model needs.

    Args:
        entries: of the dictionary, with special symbols.
        positions: n.
    """

    def __init__(self, entries: int, positions: int):
        self.source_dictionary = _Entries(entries)
        self._positions = positions

    def max_positions(self) -> int:
        return self._positions


class _Entries:
    """As much of a dictionary."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def pad(self) -> int:
        return PADDING_IDX
