"""One training by many processes, under Slurm or torchrun: its run folder, its signals, its end."""
