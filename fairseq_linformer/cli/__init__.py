"""``fairseq-linformer COMMAND``: parses, calls one function, prints. A file for each command."""

import argparse
import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import Iterator, List, Optional

from ..errors import first_line
from . import analyze, benchmark, convert, evaluate, finetune, plan, prepare, report, reproduce, submit

NAME = "fairseq-linformer"


def main(arguments: Optional[List[str]] = None) -> None:
    """The command line. Bad input ends with one sentence and status 1, a wrong command with status 2."""
    parser = argparse.ArgumentParser(prog=NAME, description="Tools around fairseq's own commands.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (analyze, convert, prepare, evaluate, finetune, plan, submit, reproduce, benchmark, report):
        command.add_parser(commands)
    options, options.more = parser.parse_known_args(arguments)
    if options.more and not getattr(options, "takes_more", False):
        parser.error(f"unrecognized arguments: {' '.join(options.more)}")
    # fairseq lets the root logger print everything; a command prints a few lines.
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)
    sys.stdout.reconfigure(errors="backslashreplace")  # names of files can be anything
    try:
        with _tidy_at_the_end():
            if text := options.run(options):
                print(text)
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of standard output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ImportError as error:
        sys.exit(f"{NAME}: this needs {error.name}, which is not installed; scripts/setup.sh installs everything")
    except (OSError, ValueError) as error:
        sys.exit(f"{NAME}: {' '.join(str(error).splitlines())}")  # names of files can have line ends
    except Exception as error:  # a damaged file or a full disk can fail anywhere
        sys.exit(f"{NAME}: {options.command} failed: {type(error).__name__}: {first_line(error)}")


@contextmanager
def _tidy_at_the_end() -> Iterator[None]:
    """SIGTERM ends the process as an error does: partial files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
