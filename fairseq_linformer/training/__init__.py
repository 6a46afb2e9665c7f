"""Training: finetuning and pretraining, on this machine, under torchrun or Slurm; estimates of memory and time."""
