"""One sentence instead of a traceback if fairseq's own programs end with an error that is meant for users."""

import sys
from functools import wraps
from pathlib import Path
from typing import Any

import fairseq
from fairseq import options
from fairseq.distributed import utils as distributed_utils
from hydra._internal import utils as hydra_utils

from ..errors import PACKAGE, is_raised_in, root_cause

FAIRSEQ = Path(fairseq.__file__).parent


def patch_error_reports() -> None:
    """Let ``fairseq-train``, ``fairseq-hydra-train``, ``fairseq-validate``, ... exit with the sentence and status 1.

    A wrong flag is reported without the usage, which has 170 lines. Other errors keep their traceback, and
    HYDRA_FULL_ERROR=1 shows all of them in ``fairseq-hydra-train``.
    """
    parse, call_main = options.parse_args_and_arch, distributed_utils.call_main
    is_under_debugger = hydra_utils.is_under_debugger

    @wraps(parse)
    def parse_and_report(parser: Any, *args: Any, **kwargs: Any) -> Any:
        parser.error = lambda message: parser.exit(2, f"{parser.prog}: error: {message}; see {parser.prog} --help\n")
        return parse(parser, *args, **kwargs)

    @wraps(call_main)
    def call_main_and_report(*args: Any, **kwargs: Any) -> None:
        try:
            call_main(*args, **kwargs)
        except Exception as error:
            # The plugin can be imported by the outer call_main of fairseq-hydra-train, which does not report.
            exit_with_sentence(error)
            raise

    @wraps(is_under_debugger)
    def is_under_debugger_or_report() -> bool:
        # hydra calls it to decide about the traceback of an error; nothing else there can be replaced while it runs.
        if error := sys.exc_info()[1]:
            exit_with_sentence(error)
        return bool(is_under_debugger())

    options.parse_args_and_arch = parse_and_report
    distributed_utils.call_main = call_main_and_report
    hydra_utils.is_under_debugger = is_under_debugger_or_report


def is_for_users(error: BaseException) -> bool:
    """Whether an error is an OSError, or a ValueError or FloatingPointError (non-finite gradients) that this package
    or fairseq raised: its sentence then says all, and no traceback is needed."""
    is_ours = isinstance(error, ValueError | FloatingPointError) and is_raised_in(error, PACKAGE, FAIRSEQ)
    return is_ours or isinstance(error, OSError)


def exit_with_sentence(error: BaseException) -> None:
    """Raise SystemExit with the sentence of the error's cause if it ``is_for_users``."""
    if is_for_users(cause := root_cause(error)):
        sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(str(cause).split())}")
