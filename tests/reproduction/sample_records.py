"""Records with few numbers, to check by hand."""

from typing import Any

from fairseq_linformer.reproduction.records import Curve, Measurement, Record


def measurement(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {"metric": "seconds", "value": 1.5, "unit": "s", "interval": (1.0, 2.0), "repetitions": 3}
    return Measurement(**fields | changes)


def record(**changes: Any) -> Record:
    fields: dict[str, Any] = dict(
        identifier="thing",
        experiment="thing",
        made_by="reproduce",
        claim="a thing",
        paper={"where": "Table 9"},
        measurements=[measurement()],
        scale="cpu",
        hardware={"processor": "abacus", "cores": 2, "accelerators": []},
        versions={"python": "3.11", "torch": "2.13"},
        commit="abc",
        configuration={"n": 4},
        data="none",
        command="true",
        seconds=60.0,
        date="2026-01-02",
    )
    return Record(**fields | changes)


def trained(bits: dict[str, float], identifier: str = "figure-3a-cpu", n: int = 64, **changes: Any) -> Record:
    """Models of three seeds 0.01 bits apart, and a context-free level of 8 bits."""
    measurements = [Measurement(metric="context_free_bits", value=8.0, unit="bits", n=n)]
    curves = []
    for model, middle in bits.items():
        at: dict[str, Any] = {"model": model, "n": n}
        if model.startswith("k="):
            at["k"] = int(model[2:])
        seeds = [middle - 0.01, middle, middle + 0.01]
        for seed, value in enumerate(seeds, 1):
            measurements.append(Measurement(metric="bits", value=value, unit="bits", seed=seed, **at))
            curves.append(Curve(metric="bits", model=model, seed=seed, points=[(100, 7.5), (200, value), (250, value)]))
        several = {"interval": (seeds[0], seeds[2]), "repetitions": 3, **at}
        measurements.append(Measurement(metric="bits", value=middle, unit="bits", **several))
        several["interval"] = (2 ** seeds[0], 2 ** seeds[2])
        measurements.append(Measurement(metric="perplexity", value=2**middle, unit="perplexity", **several))
    fields = {"experiment": identifier.rpartition("-")[0], "configuration": {"n": n}}
    return record(identifier=identifier, measurements=measurements, curves=curves, **fields | changes)
