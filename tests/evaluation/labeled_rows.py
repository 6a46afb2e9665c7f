"""Labeled texts, and a reader of predictions."""

import json

from ..checkpoint_fixtures import TEXT

ROWS = [
    (text, i % 2)
    for i, text in enumerate([*TEXT, "cat", "the mat the mat the mat the mat the mat the mat the mat", "a dog"] * 3)
]

NAMES = ["animal: cat", "dog"]


def read_predictions(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
