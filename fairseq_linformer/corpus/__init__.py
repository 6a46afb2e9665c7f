"""Text for pretraining: from sources to documents, tokens and fairseq's data-bin. Needs no model."""
