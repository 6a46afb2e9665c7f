"""int8 exports of finetuned Linformers, measured on a tiny one, and each rule from both sides."""

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.reproduction.experiments import int8
from fairseq_linformer.reproduction.experiments.int8 import INT8, LOGITS, LOST, NAME, ONNX, SIZE
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..sample_records import record


def synthetic(lost=0.5, logits=1e-4, size=0.27, seeds=3, tasks=("sst-2", "imdb")):
    """A record per task, all at the limits of the rules; of IMDB with these numbers."""
    records = []
    for task in tasks:
        values = {LOST: (lost, INT8), LOGITS: (logits, ONNX), SIZE: (size, INT8)}
        if task != "imdb":
            values = {LOST: (0.5, INT8), LOGITS: (1e-4, ONNX), SIZE: (0.27, INT8)}
        measurements = [
            Measurement(
                metric=metric,
                model=model,
                task=task,
                unit="1",
                value=value,
                interval=(value / 2, value if metric == LOGITS else 2 * value) if seeds > 1 else None,
                repetitions=seeds,
            )
            for metric, (value, model) in values.items()
        ]
        records.append(
            record(
                identifier=f"{NAME}-{task}-encoder",
                experiment=NAME,
                scale="encoder",
                measurements=measurements,
                commit="0" * 40,
                configuration={"n": 512},
            )
        )
    return records


@pytest.mark.parametrize("index, too_much", [(0, {"lost": 0.51}), (1, {"logits": 1.1e-4}), (2, {"size": 0.271})])
def test_rules(index, too_much):
    claim = find(NAME).claims[index]
    assert claim.evaluate(synthetic(), "encoder").outcome == HOLDS
    assert claim.evaluate(synthetic(**too_much), "encoder").outcome == FAILS
    assert claim.evaluate(synthetic(seeds=2), "encoder").outcome == UNDECIDED
    assert claim.evaluate(synthetic(tasks=["sst-2"]), "encoder").outcome == UNDECIDED
    assert claim.evaluate([], "encoder").outcome == UNMEASURED


def test_members():
    """The finetunings of encoder-tasks."""
    names = [member.name for member in int8.Int8.members(find(NAME), "encoder")]
    assert names == ["sst-2-k128-headwise-w16", "imdb-k128-headwise-w16"]
