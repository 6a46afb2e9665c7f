"""Doors between checkpoints: other lengths (other formats follow)."""
