"""fairseq's dictionaries, ``dict.txt``."""

from collections.abc import Iterable
from pathlib import Path

from fairseq.data import Dictionary


def read_dictionary(path) -> Dictionary:
    """Read a dictionary."""
    try:
        return Dictionary.load(str(path))
    except OSError:
        raise
    except Exception as error:  # the type that fairseq raises for another encoding
        raise ValueError(f"{path} is not a fairseq dictionary: {error}") from None


def read_masked_lm_dictionary(path) -> Dictionary:
    """``read_dictionary`` with <mask>, which the task ``masked_lm`` adds."""
    dictionary = read_dictionary(path)
    dictionary.add_symbol("<mask>")
    return dictionary


def describe_difference(expected: Dictionary, dictionary: Dictionary) -> str | None:
    """The first difference between two dictionaries; None if they are equal."""
    for i, (expected_symbol, symbol) in enumerate(zip(expected.symbols, dictionary.symbols)):
        if symbol != expected_symbol:
            return f"entry {i} must be {expected_symbol!r}, got {symbol!r}"
    if len(dictionary) != len(expected):
        return f"it must have {len(expected):,} entries, got {len(dictionary):,}"
    return None


def check_dictionary(
    path: Path, vocab_size: int, checkpoint, hint: str = "set it with --dictionary", same_as: Iterable[Path] = ()
) -> None:
    """Raise ValueError if a dictionary is missing or is not the model's.

    Args:
        vocab_size: number of embeddings of the model.
        checkpoint: path of the model, for messages.
        hint: end of the message if the dictionary is missing.
        same_as: other dictionaries of the model, which must be equal if they exist.
    """
    if not path.is_file():
        raise ValueError(f"{path}, the dictionary of {checkpoint}, does not exist; {hint}")
    dictionary = read_masked_lm_dictionary(path)
    if len(dictionary) != vocab_size:
        raise ValueError(f"{path} must have {vocab_size:,} entries, like {checkpoint}, got {len(dictionary):,}")
    for other in same_as:
        if other.is_file() and (difference := describe_difference(read_masked_lm_dictionary(other), dictionary)):
            raise ValueError(f"{path} must equal {other}, the dictionary of {checkpoint}: {difference}")


def read_labels(path, classes: int) -> list[str]:
    """The labels of a head of so many classes, in order; fairseq pads a dictionary of labels to a multiple of 8."""
    if not Path(path).is_file():
        raise ValueError(f"{path} does not exist; it must be a dictionary of labels")
    dictionary = read_dictionary(path)
    names = [name for name in dictionary.symbols[dictionary.nspecial :] if not name.startswith("madeupword")]
    if len(names) != classes:
        raise ValueError(f"{path} must have {classes} labels, one per class of the head, got {len(names)}")
    return names
