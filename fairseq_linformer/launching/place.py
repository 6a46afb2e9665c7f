"""Which process of a job this is."""

import os
import socket
from dataclasses import dataclass
from typing import Mapping


@dataclass(frozen=True)
class Place:
    """
    Attributes:
        rank: of this process among all, from 0.
        world_size: processes of the job.
        local_rank: of this process on its node, from 0.
        address, port: where rank 0 waits for the others.
    """

    rank: int
    world_size: int
    local_rank: int
    address: str
    port: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} on {socket.gethostname()}"


def find_place(environment: Mapping[str, str] = os.environ) -> Place:
    """From the variables of torchrun, or of srun with MASTER_ADDR and MASTER_PORT beside them.

    torchrun comes first, since it can run in a job of Slurm, whose variables then count nodes.

    Raises:
        ValueError: this was started by neither, or a variable is missing.
    """
    for names in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")):
        if names[0] in environment:
            break
    else:
        raise ValueError("neither RANK nor SLURM_PROCID is set; this is started by torchrun or srun, see scripts/torchrun.sh and scripts/slurm/")
    missing = [name for name in (*names, "MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise ValueError(f"{names[0]} is set and {missing[0]} is not; scripts/torchrun.sh and scripts/slurm/train.sbatch set both")
    rank, world_size, local_rank = (int(environment[name]) for name in names)
    return Place(rank, world_size, local_rank, environment["MASTER_ADDR"], int(environment["MASTER_PORT"]))
