"""A training job of two ranks on a CPU, without a launcher; a start costs a fork, not the imports."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from ..fairseq_commands import free_port
from ..forked_worker import MODULE, ForkedWorker
from . import jobs

RANKS = (0, 1)


class TwoRanks:
    """A run that validates and saves after every ``save_interval`` updates; 0: it does neither.

    ``more`` are further overrides.
    """

    def __init__(self, data, runs, name, updates, save_interval=0, **more):
        options = {
            "dataset.num_workers": 0,
            "dataset.disable_validation": str(not save_interval).lower(),
            "dataset.validate_interval_updates": save_interval,
            "checkpoint.save_interval_updates": save_interval,
        }
        self.arguments = jobs.overrides(data, updates, **{**options, **more})
        self.folder = Path(runs, name)

    def start_ranks(self, before: Callable[[int], object] = lambda rank: None) -> list[ForkedWorker]:
        """Start the ranks, each of which first calls ``before`` with its number."""
        jobs.write_run(self.arguments, self.folder)
        words = [sys.executable, "-m", MODULE, str(self.folder)]
        variables = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return [
            ForkedWorker(
                words,
                env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                preexec_fn=lambda rank=rank: before(rank),
            )
            for rank in RANKS
        ]

    def finish(self, ranks: list[ForkedWorker]) -> list[str]:
        """Wait until the ranks have succeeded; returns their output."""
        output = [rank.stdout.read() for rank in ranks]
        assert [rank.wait() for rank in ranks] == [0, 0], output
        return output
