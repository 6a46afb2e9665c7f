"""Converting checkpoints: to other lengths, to Hugging Face and back."""
