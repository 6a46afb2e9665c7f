"""fairseq's dictionaries, ``dict.txt``."""

from pathlib import Path

from fairseq.data import Dictionary


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary.

    Raises:
        ValueError: fairseq cannot read it.
        OSError: it does not exist, or may not be read.
    """
    try:
        return Dictionary.load(str(path))
    except OSError:
        raise
    except Exception:  # the type that fairseq raises for another encoding
        raise ValueError(f"{path} is not a fairseq dictionary") from None
