"""The tables, figures and theorems of the paper, an experiment a file."""
