"""Claims of this project, an experiment a file."""
