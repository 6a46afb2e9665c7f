"""Conversion of checkpoints: from RoBERTa and the authors' plugin, to another n or k, to and from ``transformers``."""
