"""``fairseq-linformer COMMAND``. The module of a command parses its options, calls one function and prints."""

import argparse
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from ..errors import first_line
from ..signals import handle, hangup_signals
from . import (
    analyze,
    benchmark,
    convert,
    evaluate,
    export,
    finetune,
    linearize,
    path,
    plan,
    prepare,
    report,
    reproduce,
    submit,
)
from .parsers import HelpFormatter, Parser, UnknownOption

NAME = "fairseq-linformer"
SPIN_COUNT = "1000"
"""Spins of a waiting OpenMP thread before it sleeps, which take microseconds; GNU OpenMP's default is 300,000."""
_INSTALL = {
    "fairseq": "pip install --no-build-isolation --no-deps fairseq-fixed==0.12.3.1 (after torch and Cython)",
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "pip install '.[onnx]' (in a clone of this repository)"),
}
"""Install commands for packages that are not plain dependencies; see setup.py."""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with all commands."""
    parser = Parser(
        prog=NAME,
        description="Prepare data, plan, launch, finetune, evaluate, convert and benchmark Linformers. Pretraining "
        "itself is fairseq-train or fairseq-hydra-train with this plugin.",
        epilog=f"examples:\n  {NAME} evaluate checkpoint_best.pt data/sst-2\n  {NAME} evaluate --help",
        formatter_class=HelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (
        prepare,
        plan,
        submit,
        finetune,
        evaluate,
        convert,
        linearize,
        export,
        analyze,
        benchmark,
        reproduce,
        report,
        path,
    ):
        command.add_parser(commands)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Invalid input exits with one sentence and status 1, an unknown command or option with status 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    name = " ".join([f"{NAME}:", *arguments[:1]])
    try:
        with _exit_on_signals():
            _run(arguments)
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ImportError as error:
        package = (error.name or "").split(".")[0]
        if not _is_missing(package):  # it is installed, but cannot be imported
            sys.exit(f"{name} failed: {first_line(error)}")
        command = _INSTALL.get(package, f"pip install {package}")
        sys.exit(f"{name} needs {package}, which is not installed; run: {command}")
    except UnknownOption as error:
        command = f"{NAME} {arguments[0]}"
        print(f"{command}: error: {error}; see {command} --help", file=sys.stderr)
        sys.exit(2)
    except (OSError, ValueError) as error:
        sys.exit(f"{NAME}: {' '.join(str(error).splitlines())}")  # file names may contain line breaks
    except Exception as error:  # damaged files and full disks can raise anything anywhere
        sys.exit(f"{name} failed: {type(error).__name__}: {first_line(error)}")


def _is_missing(package: str) -> bool:
    try:
        return bool(package) and find_spec(package) is None
    except ValueError:  # it is imported, and has no spec
        return False


def _run(arguments: list[str]) -> None:
    parser = build_parser()
    options, unparsed = parser.parse_known_args(arguments)
    options.unparsed = unparsed
    if options.unparsed and not getattr(options, "accepts_unparsed", False):
        parser.error(f"unrecognized arguments: {' '.join(' '.join(options.unparsed).splitlines())}")
    # fairseq configures the root logger to print everything.
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)
    # Without a network, each request would log 20 lines about its retries before the error.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    limit_spinning()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may not be valid Unicode
    if text := options.run(options):
        print(text)


def limit_spinning() -> None:
    """Make waiting OpenMP threads sleep early, here and in child processes.

    By default GNU OpenMP spins for milliseconds; if other work keeps the awaited thread off its core, training becomes
    several times slower. Values that the user has set are kept. Call it before PyTorch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and SystemExit on SIGTERM and SIGHUP (except under nohup), so that temporary
    files are removed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    interrupt = (signal.SIGINT,) if signal.getsignal(signal.SIGINT) == signal.default_int_handler else ()
    with handle((*interrupt, signal.SIGTERM, *hangup_signals()), leave):
        try:
            yield
        except Exception:
            if received:  # sentencepiece, which calls back into Python, raises its own error instead of ours
                leave(received[0], None)
            raise
