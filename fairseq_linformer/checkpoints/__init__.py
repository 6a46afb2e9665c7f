"""Doors between formats: RoBERTa, other lengths, Hugging Face."""
