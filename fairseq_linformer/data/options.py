"""Default and limit of options of ``prepare pretraining``, for the command line, which imports no tokenizer."""

VALID_SHARE = 0.005
"""Share of the documents for validation."""
MAX_SHARDS = 256
"""Each shard has three open files."""
