"""The ``datasets`` library, imported when it is needed."""

import sys


def import_datasets():
    """The ``datasets`` library without warnings, and with progress bars on terminals only; errors are still raised."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets
