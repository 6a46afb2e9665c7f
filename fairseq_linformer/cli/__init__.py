"""``fairseq-linformer COMMAND``.

Each command is a module, whose docstring is the help text:

    add_options(parser)   adds its options
    run(options)          calls a function with the options that are given or have a default; returns what is printed
"""

import logging
import os
import signal
import sys
import warnings

from .. import __version__
from ..training.signals import handle, hangup_signals
from . import analyze, benchmark, convert, evaluate, export, finetune, linearize, path, plan, prepare, reproduce, submit
from .parsers import Parser, add_command

COMMANDS = (prepare, convert, linearize, finetune, evaluate, export, plan, submit, analyze, benchmark, reproduce, path)
NAME = "fairseq-linformer"
FAIRSEQ = (
    f"pip install '{NAME}[train]' cython wheel 'setuptools<81' && "
    "pip install --no-build-isolation --no-deps fairseq-fixed==0.12.3.1"
)
SPIN_COUNT = "1000"
"""Spins of a waiting OpenMP thread before it sleeps, which take microseconds; GNU OpenMP's default is 300,000."""


def build_parser() -> Parser:
    """Build the parser with all commands."""
    parser = Parser(
        prog=NAME,
        description="Prepare data, plan, launch, finetune, evaluate, convert and benchmark Linformers. Pretraining "
        "itself is fairseq-train or fairseq-hydra-train with this plugin.",
        epilog=f"examples:\n  {NAME} evaluate checkpoint_best.pt data/sst-2\n  {NAME} evaluate --help",
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        command = add_command(commands, module.__name__.rpartition(".")[2], str(module.__doc__))
        command.set_defaults(run=module.run)
        module.add_options(command)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    Invalid input exits with one sentence and status 1, an unknown command or option with status 2. An unexpected error
    shows its traceback.
    """
    words = sys.argv[1:] if arguments is None else arguments
    limit_spinning()
    try:
        # So that temporary files are removed.
        with handle((signal.SIGTERM, *hangup_signals()), lambda number, frame: sys.exit(128 + number)):
            options = build_parser().parse_args(words)
            set_logging()
            run = options.__dict__.pop("run")
            if text := run(options):
                print(text)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as error:
        package = str(error.name).split(".")[0]
        if package == __package__.split(".")[0]:
            raise
        install = FAIRSEQ if package == "fairseq" else f"pip install '{NAME}[all]'"
        sys.exit(f"{NAME} needs {package}, which is not installed; run: {install}")
    except (OSError, ValueError) as error:
        sys.exit(f"{NAME}: {' '.join(str(error).splitlines())}")  # file names may contain line breaks


def set_logging() -> None:
    """Leave out what is not for users of the command: fairseq configures the root logger to print everything, and
    without a network each request to the hub would log 20 lines about its retries before the error."""
    warnings.filterwarnings("ignore", "'pin_memory' argument")  # that fairseq sets, also on a CPU
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")


def limit_spinning() -> None:
    """Make waiting OpenMP threads sleep early, here and in child processes.

    By default GNU OpenMP spins for milliseconds; if other work keeps the awaited thread off its core, training becomes
    several times slower. Values that the user has set are kept. Call it before PyTorch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
