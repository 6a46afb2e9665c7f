"""Training jobs of one or many processes, on this machine, under torchrun or Slurm."""
