"""Records of made-up numbers, for tests of rules and tables."""

import json
import re

from fairseq_linformer.reproduction.records import Curve, Measurement, Record
from fairseq_linformer.reproduction.registry import claims

FIELDS = dict(
    made_by="reproduce",
    claim="a claim",
    paper={"where": "nowhere"},
    scale="cpu",
    hardware={"cores": 1},
    versions={"python": "3"},
    commit="c",
    data="none",
    command="true",
    seconds=1.0,
    date="2026-01-01",
)


def number(metric, value, interval=None, repetitions=None, unit="1", **fields):
    """A measurement, of three repetitions where it has an interval."""
    if repetitions is None:
        repetitions = 1 if interval is None else 3
    return Measurement(metric=metric, value=value, unit=unit, interval=interval, repetitions=repetitions, **fields)


def record(measurements, identifier="a-record", configuration=None, **changed):
    configuration = configuration or {"layers": 2}
    return Record(
        **{**FIELDS, "identifier": identifier, "configuration": configuration, "measurements": measurements, **changed}
    )


def places_of(label):
    """n and k of a model by its label: ``roberta``, ``roberta n=128``, ``n=128``, ``k=8``, or another Linformer."""
    n, k = re.search(r"n=(\d+)", label), re.search(r"k=(\d+)", label)
    fields = {"model": label, "n": int(n[1]) if n else 64}
    return fields if label.startswith("roberta") else {**fields, "k": int(k[1]) if k else 16}


def curves(label, bits, falls):
    """A validation curve per seed that ends at its bits, after a fall over the last fifth of the updates."""
    points = [[(100.0, 9.0), (400.0, round(value + fall, 4)), (500.0, value)] for value, fall in zip(bits, falls)]
    return [Curve(metric="bits", model=label, seed=seed, points=each) for seed, each in enumerate(points, 1)]


def trained(experiment, bits, level=8.0, by_seed=True, levels=(), fall=0.0, **changed):
    """The record of trained models.

    Args:
        bits: of each seed, by the model's label.
        level: bits without context, of n = 64.
        by_seed: whether it has the bits of each seed too.
        levels: (n, bits) of other n.
        fall: of every validation curve over the last fifth of the updates, in bits.
    """
    measurements = [number("context_free_bits", bits, n=n) for n, bits in ((64, level), *levels) if bits is not None]
    for label, values in bits.items():
        at, ordered = places_of(label), sorted(values)
        for metric, found in (("bits", ordered), ("perplexity", [2.0**value for value in ordered])):
            interval = (found[0], found[-1]) if len(found) > 1 else None
            measurements.append(number(metric, found[len(found) // 2], interval, len(found), **at))
        if by_seed:
            measurements += [number("bits", value, seed=seed, **at) for seed, value in enumerate(values, 1)]
    flat = [curve for label, values in bits.items() for curve in curves(label, values, [fall] * len(values))]
    changed = {"identifier": f"{experiment}-cpu", "configuration": {"n": 64}, "curves": flat, **changed}
    return record(measurements, experiment=experiment, **changed)


def three(bits):
    """Three seeds that differ by 0.1 bits, as those of every other model do, so that ratios are exact."""
    return bits, bits + 0.1, bits + 0.2


def verdict(claim, *records, scale="cpu"):
    return claims()[claim].evaluate(records, scale)


def outcome(claim, *records, scale="cpu"):
    return verdict(claim, *records, scale=scale).outcome


def cell(kind, measured, name="n32", **changed):
    """What ``benchmark.cells`` writes; options of its configuration have names that its other fields do not."""
    fields = dict(
        clock="wall",
        threads=2,
        hardware={"cores": 1},
        versions={"python": "3"},
        seconds=1.0,
        date="2026-01-02",
        commit="abc",
        command="it",
        peak_operations_per_second=1e12,
        peak_from="a matrix product",
    )
    own = {key: changed.pop(key) for key in list(changed) if key in fields}
    shape = {"device": "cpu", "dtype": "fp32", "layers": 2, "n": 32, "tokens": 64, **changed}
    return {"name": f"{kind}-cpu-fp32-l2-{name}", "configuration": shape, "measured": measured, **fields, **own}


def put_cells(folder, *cells):
    for each in cells:
        (folder / f"{each['name']}.json").write_text(json.dumps(each))
    return folder
