"""A pretrained checkpoint finetuned on a task, once or over a grid, and judged on its development set."""
