"""What a finetuned or pretrained model can do: predictions, scores, perplexity."""
