"""Figure 1: shares of singular values, and when they are a long tail."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from fairseq_linformer.analysis.spectrum import SpectrumSums
from fairseq_linformer.analysis.spectrum_result import Spectrum
from fairseq_linformer.files import sha256
from fairseq_linformer.reproduction import spectra
from fairseq_linformer.reproduction.experiments import figure_1
from fairseq_linformer.reproduction.records import Curve
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import number, outcome, record, verdict


def spectrum(*layers, identifier="spectrum-roberta-cpu", index=16, source="r", **changed):
    """Of each layer the share of each head at ``index`` of 64 singular values; the last layer first."""
    shares = [
        number("cumulative_share", share, source=source, layer=layer, head=head)
        for layer, heads in reversed([*enumerate(layers, 1)])
        for head, share in enumerate(heads, 1)
    ]
    runs = {"runs": {source: {"index": index, "singular_values": 64, "n": 64}}}
    return record(shares, identifier, runs, experiment="figure-1", **changed)


@pytest.mark.parametrize(
    "heads, expected",
    [
        ((1.0, 0.75, 1.0), HOLDS),
        ((1.0, 0.74, 1.0), UNDECIDED),  # though the mean over heads is above 0.75
        ((1.0, 0.5, 1.0), UNDECIDED),
        ((1.0, 0.49, 1.0), FAILS),
    ],
)
def test_every_head_has_a_long_tail(heads, expected):
    assert (spectra.TAIL, spectra.NO_TAIL) == (0.75, 0.5)
    for layers in ([heads], [heads, (1.0, 1.0, 1.0)], [(1.0, 1.0, 1.0), heads]):
        assert outcome("figure-1", spectrum(*layers)) == expected


def test_the_least_share_and_the_mean_are_reported():
    (check,) = verdict("figure-1", spectrum((0.9, 0.6, 0.9))).checks
    assert (
        "0.60" in check.text and "0.80 on average" in check.text and "layer 1" in check.text and "3 heads" in check.text
    )


@pytest.mark.parametrize(
    "layers, expected",
    [
        ([(0.9, 0.5), (0.7,), (0.7,), (0.71,), (0.71,), (0.9, 0.5)], HOLDS),  # by the mean over heads and layers
        ([(0.7,)] * 6, FAILS),  # equal
        ([(0.7,), (0.7,), (0.7,), (0.69,), (0.69,), (0.719,)], FAILS),  # though the last is above the first
        ([(0.7,), (0.7,), (0.7,), (0.69,), (0.69,), (0.721,)], HOLDS),
        ([(0.7,), (0.7,), (0.7,), (0.0,), (0.71,), (0.71,), (0.71,)], HOLDS),  # the middle one is in neither half
        ([(0.1,), (0.1,), (0.1,), (0.9,), (0.9,)], UNDECIDED),  # fewer than six layers
        ([(0.9,), (0.1,)], UNDECIDED),
        ([(0.9,)], UNDECIDED),
    ],
)
def test_the_upper_half_of_the_layers_is_compared_with_the_lower(layers, expected):
    assert spectra.MIN_LAYERS == 6
    assert outcome("figure-1-layers", spectrum(*layers)) == expected


UP, DOWN = [(0.7,)] * 3 + [(0.8,)] * 3, [(0.8,)] * 3 + [(0.75,)] * 3


def test_every_model_and_text_decides():
    up, down = spectrum(*UP), spectrum(*DOWN, identifier="spectrum-roberta-more")
    assert outcome("figure-1-layers", up, down) == FAILS and outcome("figure-1", up) == UNDECIDED
    both = up.copy_with(
        measurements=[*up.measurements, *spectrum(*DOWN, source="s").measurements],
        configuration={"runs": {**up.configuration["runs"], "s": up.configuration["runs"]["r"]}},
    )
    found = verdict("figure-1-layers", both)
    assert found.outcome == FAILS and len(found.checks) == 2
    assert found.deciding[0].startswith("s: 0.80 in layers 1 to 3, 0.75 in layers 4 to 6;")


def test_the_models_behind_a_verdict_are_counted():
    texts = [spectrum(*UP, source=f"RoBERTa, n = 64, {text}", identifier=text) for text in ("wiki", "books")]
    assert verdict("figure-1-layers", *texts).remarks == ["1 model: RoBERTa, n = 64"]
    two = texts[0].copy_with(
        measurements=[*texts[0].measurements, *spectrum(*UP, source="RoBERTa, n = 8, wiki").measurements],
        configuration={
            "runs": {s: {"index": 16, "singular_values": 64} for s in ("RoBERTa, n = 64, wiki", "RoBERTa, n = 8, wiki")}
        },
    )
    assert verdict("figure-1-layers", two).remarks == ["2 models: RoBERTa, n = 64; RoBERTa, n = 8"]


def test_another_index_than_a_quarter_is_skipped():
    ours, other = (
        spectrum(*UP, identifier="spectrum-roberta-cpu"),
        spectrum((0.1,), (0.0,), identifier="spectrum-roberta-more", index=8),
    )
    for claim, expected in (("figure-1", UNDECIDED), ("figure-1-layers", HOLDS)):
        found = verdict(claim, ours, other)
        assert found.outcome == expected and found.records == ["spectrum-roberta-cpu"]
        assert outcome(claim, other) == UNDECIDED


def test_spectra_of_another_command_count_and_those_of_scripts_do_not():
    assert outcome("figure-1", spectrum((0.8,), made_by="analyze")) == HOLDS
    assert (
        outcome("figure-1", spectrum((0.8,), made_by="script"))
        == UNMEASURED
        == outcome("figure-1", spectrum((0.8,)), scale="gpu")
    )
    assert verdict("figure-1", spectrum((0.8,)), spectrum((0.1,), made_by="analyze", identifier="b")).outcome == HOLDS


# Measurements


@pytest.fixture
def measured():
    """Two layers of two heads, eight singular values: equal or all in the first; curves are straight or flat."""
    straight, flat = np.arange(1, 9) / 8, np.ones(8)
    curve = np.array([[straight, flat], [flat, flat]])
    facts = {"n": 8, "index": 2, "sentences": 1000, "singular_values": 8}
    return Spectrum(curve, curve / 10, curve**0.5, np.zeros((3, 2, 2)), {}, facts)


def test_measurements(measured):
    one = record(list(spectra.measurements(measured, "a text")))
    at = {"source": "a text", "n": 8, "layer": 1, "head": 1}
    assert (
        one.find("cumulative_share", **at).value == 0.25 and one.find("cumulative_share_deviation", **at).value == 0.025
    )
    assert one.find("k_for_90_percent", **at).value == 8 and one.find("k_for_90_percent_of_squares", **at).value == 7
    assert one.find("cumulative_share", source="a text", n=8, layer=1, head=2).value == 1
    assert len(one.measurements) == 4 * 4 and "1,000" in one.find("cumulative_share").unit


def test_curves_are_means_over_heads(measured):
    first, second = spectra.curves(measured, "a text")
    assert (first.layer, first.source, second.layer) == (1, "a text", 2)
    assert first.points[:2] == [(1, 0.5625), (2, 0.625)] and first.points[-1] == (8, 1.0) and len(first.points) == 8


def test_a_long_curve_has_32_points():
    curve = np.linspace(0.01, 1, 128).reshape(1, 1, 128)
    facts = {"n": 128, "index": 32, "sentences": 1}
    (found,) = spectra.curves(Spectrum(curve, curve, curve, np.zeros((3, 1, 1)), {}, facts), "s")
    assert [x for x, _ in found.points] == [*range(4, 129, 4)]
    assert all(y == round(y, 5) for _, y in found.points)


def write_text(folder):
    (folder / "dict.txt").write_text("a 1\nb 1\n")
    builder = MMapIndexedDatasetBuilder(str(folder / "valid.bin"), dtype=np.uint16)
    for line in ([4, 5, 2], [5, 5, 5, 4, 2], [4, 2]):
        builder.add_item(torch.tensor(line))
    builder.finalize(str(folder / "valid.idx"))


def test_blocks_follow_each_other(tmp_path):
    write_text(tmp_path)
    blocks = figure_1.Blocks(tmp_path, 4, 0)
    for _ in range(2):
        assert [*blocks] == [[0, 4, 5, 2], [0, 5, 5, 5], [0, 4, 2, 4]]  # what is left is shorter than a block
        assert (blocks.counts.texts, blocks.counts.sentences) == (3, 3)


@pytest.mark.parametrize("scale", SCALES)
def test_the_model_is_the_roberta_of_figure_3a(scale):
    (run, *_) = find("figure-3a").plan(SCALES[scale])["roberta"]
    assert find("figure-1").plan(SCALES[scale]) == {"roberta": [run]}
    cost = find("figure-1").cost(scale)
    assert f"{sum(each.updates for each in run.history):,}" in cost and f"{SCALES[scale].sentences:,}" in cost


def test_sentences():
    assert {name: scale.sentences for name, scale in SCALES.items()} == {"smoke": 4, "cpu": 1000, "gpu": 10000}


# A run


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").mkdir()
    write_text(tmp_path / "text")
    return tmp_path / "text"


def test_the_attention_of_a_checkpoint_is_analyzed(text, tmp_path, monkeypatch):
    checkpoint, asked = tmp_path / "checkpoint.pt", {}
    checkpoint.write_text("weights")

    def measure(model, blocks, sentences, state, key):
        asked.update(blocks=[*blocks], sentences=sentences, state=state, key=key)
        sums = SpectrumSums.empty(1, 2, 8)
        sums.curve[0] = [np.arange(1, 9) / 2, np.full(8, 4.0)]
        sums.sentences, sums.values, sums.difference = 4, 8, 0.25
        return sums

    opened = SimpleNamespace(bos=0, kind="roberta")
    monkeypatch.setattr(
        figure_1, "load_model", lambda path, tokenizer: opened if path == checkpoint and not tokenizer else None
    )
    monkeypatch.setattr(figure_1, "accumulate_spectra", measure)
    found, seconds = figure_1.analyze(checkpoint, text, 8, 4, tmp_path / "new" / "out")
    assert found.facts == {
        "kind": "roberta",
        "n": 8,
        "index": 2,
        "singular_values": 8,
        "sentences": 4,
        "float64_difference": 0.25,
    }
    assert found.heat.tolist() == [[0.25, 1.0]] and 0 <= seconds < 60
    assert asked["key"] == {"checkpoint": sha256(checkpoint), "valid": sha256(text / "valid.bin"), "n": 8}
    assert (
        asked["blocks"] == [[0, 4, 5, 2, 5, 5, 5, 4]]
        and asked["sentences"] == 4
        and asked["state"].parent == tmp_path / "new" / "out"
    )
    figure_1.analyze(checkpoint, text, 8, 4, tmp_path / "new" / "out")  # the folder is there


# Charts


def test_charts():
    layers = [
        Curve(metric="cumulative_share", source="r", layer=layer, points=[(16, 0.7), (64, 1.0)]) for layer in (1, 2)
    ]
    lines, heat = find("figure-1").charts([spectrum((0.1, 0.2), (0.3, 0.4)).copy_with(curves=layers)])
    assert [(s.name, s.runs) for s in lines.series] == [
        (f"r, layer {layer}", [[(16, 0.7), (64, 1.0)]]) for layer in (1, 2)
    ]
    values = dict(zip(heat.rows, heat.values))
    assert values == {"layer 1": [0.1, 0.2], "layer 2": [0.3, 0.4]} and heat.columns == ["head 1", "head 2"]
    assert "16 of 64" in heat.quantity and lines.identifier != heat.identifier
    assert [*find("figure-1").charts([spectrum((0.1, 0.2))])] == [
        spectra.Heat(heat.identifier, heat.title, ["layer 1"], heat.columns, [[0.1, 0.2]], heat.quantity)
    ]


def test_charts_of_each_n():
    longer = spectrum((0.5, 0.6), source="a, n = 128")
    facts = {
        "r": {"index": 16, "singular_values": 64, "n": 64},
        "a, n = 128": {"index": 32, "singular_values": 128, "n": 128},
    }
    both = spectrum((0.1, 0.2)).copy_with(
        measurements=[*spectrum((0.1, 0.2)).measurements, *longer.measurements],
        configuration={"runs": facts},
        curves=[Curve(metric="cumulative_share", source=source, layer=1, points=[(16, 0.7)]) for source in facts],
    )
    charts = find("figure-1").charts([both])
    assert [("n128" in chart.identifier, "n = 128" in chart.title) for chart in charts] == [(True, True)] * 2 + [
        (False, False)
    ] * 2
    assert [len(chart.series) for chart in charts[::2]] == [1, 1] and [chart.values for chart in charts[1::2]] == [
        [[0.5, 0.6]],
        [[0.1, 0.2]],
    ]
    assert "32 of 128" in charts[1].quantity and "16 of 64" in charts[3].quantity
