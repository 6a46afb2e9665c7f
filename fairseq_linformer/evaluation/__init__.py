"""Evaluate finetuned and pretrained models: predictions, scores, perplexity."""
