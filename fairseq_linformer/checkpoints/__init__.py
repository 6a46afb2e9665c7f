"""Converting checkpoints: to other lengths."""
