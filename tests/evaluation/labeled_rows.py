"""Labeled texts, and a reader of predictions."""

import json

from ..checkpoint_fixtures import TEXT

NAMES = ["animal: cat", "dog"]
ROWS = [
    (text, NAMES[i % 2])
    for i, text in enumerate([*TEXT, "cat", "the mat the mat the mat the mat the mat the mat the mat", "a dog"] * 3)
]


def read_predictions(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
