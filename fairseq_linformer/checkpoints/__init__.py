"""Doors between formats: RoBERTa, the authors' code, other lengths, Hugging Face."""
