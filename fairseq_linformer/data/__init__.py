"""Text and tasks, from sources to tokens and fairseq's data-bin. Needs no model."""
