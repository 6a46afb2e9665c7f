"""In a job, before its processes start: the run folder, and the checkpoint to go on from.

    python -m fairseq_linformer.launching.begin --processes 64 +run=n512-k256-layerwise task.data=BIN

Prints the run folder; what was found goes to stderr.
"""

import argparse
import logging
import sys
from typing import List, Optional


def main(words: Optional[List[str]] = None) -> None:
    logging.basicConfig(level=logging.WARNING)  # before fairseq does it, at INFO, when it is imported
    from .arguments import add_job_arguments, parse_in_job, training_of
    from .folder import begin

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job_arguments(parser)
    parser.add_argument("--folder-only", action="store_true", help="print it; another node makes it")
    try:
        options = parse_in_job(parser, words)
        training = training_of(options, options.processes)
        for line in () if options.folder_only else begin(training):
            print(line, file=sys.stderr)
    except (OSError, ValueError) as error:
        sys.exit(f"begin: {error}")
    print(training.folder)


if __name__ == "__main__":
    main()
