"""Text to documents, to pieces, to what ``fairseq-preprocess`` reads. Needs no model."""
