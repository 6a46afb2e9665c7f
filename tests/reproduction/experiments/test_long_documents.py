"""Long documents: measured on tiny models, and each bar of the rules from both sides."""

import pytest
import torch

pytest.importorskip("transformers")

from fairseq_linformer.benchmark.encoders import FullAttention
from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import document_models as models
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.experiments import long_documents
from fairseq_linformer.reproduction.experiments.long_documents import BARS, FLAT, NAME, PER_TOKEN, RATE, RATIO, SIZES
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..sample_records import record

MIB = 2**20


@pytest.mark.slow
@pytest.mark.long
def test_record(tmp_path):
    """All models, the graphs among them, are timed and measured in processes of their own."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    main(["reproduce", NAME, "--scale", "smoke", "--results", str(tmp_path)])
    record = ledger.read(tmp_path / f"{NAME}-smoke.json")
    for metric in (RATE, PER_TOKEN, long_documents.PEAK):
        assert [m.model for m in record.select(metric)] == list(models.MODELS)
    assert len(record.select(RATIO)) == len(models.OURS) * len(models.OTHERS)
    assert all(m.value > 0 for m in record.measurements if m.metric != PER_TOKEN)
    assert all(m.repetitions == 2 for m in record.select(RATE)) and record.configuration["threads"] == 1
    every, first = (record.find(PER_TOKEN, model=name).value for name in (models.EVERY_POSITION, models.LINFORMER))
    assert every > first
    speed, ratios, memory = find(NAME).tables([record])
    assert [row[0] for row in speed.rows] == [row[0] for row in memory.rows] == list(models.MODELS)
    assert [row[0] for row in ratios.rows][1] == "Linformer over ModernBERT"
    assert [claim.evaluate([record], "smoke").outcome for claim in find(NAME).claims] == [UNDECIDED] * 2


def synthetic(lows=None, bytes_of=None):
    """A record at the limit of every bar, with other lowest ratios at (n, baseline, model), and bytes per token at
    n."""
    limits = {(n, other, model): bar for n, other, bar in BARS for model in (models.LINFORMER, models.EVERY_POSITION)}
    limits[16384, models.TRANSFORMER, models.EVERY_POSITION] = 1.0  # not part of the rule
    measurements = []
    for n in SIZES["cpu"]["lengths"]:
        for model in models.MODELS:
            at = {"model": model, "n": n}
            spread = {"interval": (1.0, 3.0), "repetitions": 3}
            if not models.why_omitted(model, n):
                measurements.append(Measurement(metric=RATE, value=2.0, unit="documents per second", **spread, **at))
                value = (bytes_of or {}).get(n, 1000.0)
                measurements.append(Measurement(metric=PER_TOKEN, value=value, unit="bytes per token", **at))
                measurements.append(Measurement(metric=long_documents.PEAK, value=2.0**30, unit="bytes", **at))
    for (n, other, model), bar in {**limits, **(lows or {})}.items():
        if bar is not None:
            spread = {"value": bar + 9, "interval": (bar, bar + 10), "repetitions": 3}
            at = {"model": model, "baseline": other, "n": n}
            measurements.append(Measurement(metric=RATIO, unit="ratio of times", **spread, **at))
    return record(
        identifier=f"{NAME}-cpu",
        experiment=NAME,
        measurements=measurements,
        commit="0" * 40,
        configuration={"sizes": SIZES["cpu"], "threads": 2},
    )


@pytest.mark.parametrize(
    "n, baseline, model",
    [
        (4096, models.LONGFORMER, models.LINFORMER),
        (4096, models.LONGFORMER, models.EVERY_POSITION),
        (4096, models.MODERNBERT, models.LINFORMER),
        (4096, models.MODERNBERT, models.EVERY_POSITION),
        (16384, models.TRANSFORMER, models.LINFORMER),
    ],
)
def test_speed_rule(n, baseline, model):
    """One round below one bar decides, whatever the median; a bar that was not measured leaves it open."""
    claim, _ = find(NAME).claims
    assert claim.evaluate([synthetic()], "cpu").outcome == HOLDS
    (bar,) = (bar for at, other, bar in BARS if (at, other) == (n, baseline))
    assert claim.evaluate([synthetic({(n, baseline, model): bar - 0.01})], "cpu").outcome == FAILS
    assert claim.evaluate([synthetic({(n, baseline, model): None})], "cpu").outcome == UNDECIDED
    assert claim.evaluate([], "cpu").outcome == UNMEASURED


def test_memory_rule():
    _, claim = find(NAME).claims
    short, long, most = FLAT
    for growth, outcome in ((most, HOLDS), (most + 0.01, FAILS), (0.5, HOLDS)):
        assert claim.evaluate([synthetic(bytes_of={long: 1000 * growth})], "cpu").outcome == outcome
    without = synthetic()
    kept = [m for m in without.measurements if (m.metric, m.n) != (PER_TOKEN, short)]
    assert claim.evaluate([without.copy_with(measurements=kept)], "cpu").outcome == UNDECIDED


def test_tables_and_charts():
    record = synthetic()
    speed, ratios, memory = find(NAME).tables([record])
    assert all(len(table.head) == 1 + len(SIZES["cpu"]["lengths"]) for table in (speed, ratios, memory))
    assert (
        speed.rows[-1] == ["BigBird", "full attention", *["2"] * 4, "n x n memory"]
        and memory.rows[0][1] == "1.00 (0.977)"
    )
    cells = {row[0]: row[4] for row in ratios.rows}
    assert cells["Linformer over Longformer"] == "12.00 [3.00, 13.00]"
    for chart in find(NAME).charts([record]):
        assert [series.name for series in chart.series] == [n for n in models.MODELS if n != models.EVERY_POSITION]
        thin = {series.name: series.color for series in chart.series if series.thin}
        assert thin.keys() == {models.WINDOWED, models.WINDOWED_ONNX, models.WINDOWED_INT8}
        assert len({series.color for series in chart.series}) == len(chart.series) - len(thin)
    assert find(NAME).charts([record])[0].series[0].runs[0][0] == (512.0, 1024.0)


def test_models(tmp_path):
    """Which positions are computed, and how; the Transformer and the Linformers differ in attention only."""
    sizes = SIZES["smoke"]
    tokens = models.build_tokens(2, 64, sizes)
    calls = {
        name: models.build_call(name, 64, sizes, tmp_path)
        for name in (models.LINFORMER, models.EVERY_POSITION, models.WINDOWED, models.TRANSFORMER)
    }
    with torch.inference_mode():
        for name in (models.LINFORMER, models.WINDOWED, models.TRANSFORMER):
            assert calls[name](tokens).logits.shape == (2, 2)
        assert calls[models.EVERY_POSITION](tokens).last_hidden_state.shape == (2, 64, sizes["width"])
    kinds = {
        name: type(call.get_submodule("linformer.encoder.layers.0.self_attn"))
        for name, call in calls.items()
        if name != models.EVERY_POSITION
    }
    assert [name for name, kind in kinds.items() if kind is FullAttention] == [models.TRANSFORMER]
    assert calls[models.TRANSFORMER].linformer.encoder.layers[0].self_attn.kind == "sdpa"
    configs = [calls[name].config for name in (models.LINFORMER, models.WINDOWED)]
    assert [config.local_window for config in configs] == [0, sizes["window"]]
    assert [(config.projected_dim, config.sharing) for config in configs] == [(sizes["k"], "layerwise")] * 2
    assert not any(call.training for call in calls.values())


def test_bigbird_is_omitted_where_it_is_quadratic():
    found = [models.why_omitted(models.BIGBIRD, n) for n in (512, 704, 768, 8192, 16384)]
    assert found == ["full attention", "full attention", "", "", "n x n memory"]
    assert not any(models.why_omitted(models.LONGFORMER, n) for n in (512, 16384))


@pytest.mark.parametrize("warmed_up", [True, False])
def test_memory(monkeypatch, tmp_path, warmed_up):
    """128 MiB exist only during the pass; what the model holds and what building it freed is not counted."""
    seen = []

    def build_call(name, n, sizes, graphs):
        torch.ones(256 * MIB // 4)  # freed
        model = torch.ones(32 * MIB // 4)
        return lambda tokens: seen.append(tokens.size(1)) or torch.ones(64 * MIB // 4) + model[0]

    monkeypatch.setattr(models, "build_call", build_call)
    monkeypatch.setattr(models.torch, "set_num_threads", lambda threads: None)
    name = models.LINFORMER if warmed_up else models.ONNX
    peak, added = models._measure_here(name, 2048, SIZES["smoke"], tmp_path)
    assert 124 * MIB <= added <= 140 * MIB < peak  # the kernel's counters are a little behind
    assert seen == [1024, 2048][not warmed_up :]


def test_a_process_that_ends_is_reported(monkeypatch, tmp_path):
    """As for lack of memory."""

    class Pool:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, *_):
            raise models.BrokenProcessPool

    monkeypatch.setattr(models, "ProcessPoolExecutor", Pool)
    with pytest.raises(ValueError, match="Longformer at n = 2048"):
        models.measure_memory(models.LONGFORMER, 2048, SIZES["smoke"], tmp_path)


def test_bad_input(monkeypatch):
    with pytest.raises(ValueError, match="--runs.* here"):
        find(NAME).check("cpu", Inputs(runs="here"))
    monkeypatch.setattr(long_documents, "find_spec", lambda name: None if name == "onnxruntime" else name)
    with pytest.raises(ValueError, match="onnxruntime"):
        find(NAME).check("cpu", Inputs())
