"""Figure 1 on an encoder of transformers: measured on a tiny one, with text and rows."""

import json

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.experiments.encoder_spectrum import NAME
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.spectra import shares_by_layer
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ...checkpoints.encoders import save_encoder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The options of the command."""
    folder = tmp_path_factory.mktemp("spectrum")
    encoder = save_encoder(folder / "tiny-bert", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    lines = [" ".join(words[(i * j) % len(words)] for j in range(3, 25)) for i in range(20)]
    (folder / "wiki.txt").write_text("\n\n".join(lines))
    (folder / "reviews.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in ["new", *lines]))
    sources = ["--source", str(folder / "wiki.txt"), "--source", str(folder / "reviews.jsonl")]
    return ["--scale", "smoke", "--encoder", str(encoder), *sources]


@pytest.fixture(scope="module")
def record(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    main(["reproduce", NAME, *inputs, "--results", str(folder)])
    return ledger.read(folder / "spectrum-tiny-bert-smoke.json")


def test_record(record, inputs, tmp_path):
    shares = shares_by_layer(record)
    assert set(shares) == {(f"tiny-bert, {text}", layer) for text in ("wiki.txt", "reviews.jsonl") for layer in (1, 2)}
    assert all(len(heads) == 4 and all(0.25 <= share <= 1.0001 for share in heads) for heads in shares.values())
    modes = {source: facts["break_mode"] for source, facts in record.configuration["runs"].items()}
    assert modes == {"tiny-bert, wiki.txt": "packed", "tiny-bert, reviews.jsonl": "lines"}
    assert record.command.endswith("--encoder tiny-bert --source wiki.txt --source reviews.jsonl")
    ledger.put(record, tmp_path)
    with pytest.raises(SystemExit, match="different names, got wiki.txt, wiki.txt"):
        main(["reproduce", NAME, *inputs[:4], *2 * inputs[4:6], "--results", str(tmp_path)])
    (table,) = find(NAME).tables([record])
    assert table.head == ["layer", "tiny-bert, wiki.txt", "tiny-bert, reviews.jsonl"] and len(table.rows) == 2
    assert len(find(NAME).charts([record])) == 2


def write_short(folder):
    """A source of a single sentence, fewer than the plan has."""
    path = folder / "short.jsonl"
    path.write_text(json.dumps({"text": "new " * 24}) + "\n")
    return path


def test_a_second_encoder_has_its_own_record(inputs, tmp_path):
    """The sources of the first one's record do not matter."""
    other = save_encoder(tmp_path / "other", "bert", False)
    results = tmp_path / "results"
    results.mkdir()
    main(["reproduce", NAME, *inputs[:4], *inputs[4:6], "--results", str(results)])
    options = ["--encoder", str(other), "--source", str(write_short(tmp_path))]
    main(["reproduce", NAME, "--scale", "smoke", *options, "--results", str(results)])
    names = {"spectrum-tiny-bert-smoke", "spectrum-other-smoke"}
    assert {path.stem for path in results.glob("*.json")} == names


def synthetic(record, share, layers=6):
    """The record at the scale ``encoder``, with ``share(layer, head)``."""
    (m, *_) = record.select("cumulative_share")
    measurements = [
        m.model_copy(update={"layer": layer, "head": head, "value": share(layer, head)})
        for layer in range(1, layers + 1)
        for head in (1, 2)
    ]
    return record.copy_with(measurements=measurements, scale="encoder", identifier="spectrum-x-encoder")


@pytest.mark.parametrize(
    "claim, share, layers, outcome",
    [
        ("", lambda layer, head: 0.75, 6, HOLDS),
        ("", lambda layer, head: 0.74 if (layer, head) == (3, 2) else 0.9, 6, UNDECIDED),
        ("", lambda layer, head: 0.49 if (layer, head) == (3, 2) else 0.9, 6, FAILS),
        ("-layers", lambda layer, head: 0.7 + layer / 100, 6, HOLDS),
        ("-layers", lambda layer, head: 0.7 - layer / 100, 6, FAILS),
        ("-layers", lambda layer, head: 0.7 + layer / 100, 4, UNDECIDED),
    ],
)
def test_rules(record, claim, share, layers, outcome):
    (rule,) = (each for each in find(NAME).claims if each.identifier == NAME + claim)
    assert rule.evaluate([synthetic(record, share, layers)], "encoder").outcome == outcome
    assert rule.evaluate([], "encoder").outcome == UNMEASURED
