"""Finetuning of a pretrained checkpoint on a task: a single run or a grid, scored on the development set."""
