"""A training job of one or many processes, here, under Slurm or torchrun: its run folder, its workers, its stops."""
