"""What a converted encoder keeps: measured on a tiny one, and its rules from both sides."""

import pytest

pytest.importorskip("transformers")

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.converted_encoders import METRIC, UNIT
from fairseq_linformer.reproduction.experiments.local_window import K_DIVISORS, LOCAL_WINDOWS, label
from fairseq_linformer.reproduction.experiments.survival import CLAIMS
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNMEASURED

from ...checkpoints.encoders import save_encoder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The options of the command."""
    folder = tmp_path_factory.mktemp("survival")
    encoder = save_encoder(folder / "tiny-bert", "bert", False)
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(words[(i * j) % len(words)] for j in range(3, 25)) + "\n\n" for i in range(200))
    (folder / "train.txt").write_text("".join(lines))
    tokenizer = ["--wordpiece", str(encoder / "tokenizer.json"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(folder / "bin"), "--source", str(folder / "train.txt"), *tokenizer])
    return ["--scale", "smoke", "--encoder", str(encoder), "--data", str(folder / "bin")]


@pytest.fixture(scope="module")
def record(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    main(["reproduce", "survival", *inputs, "--results", str(folder)])
    return ledger.read(folder / "survival-smoke.json")


@pytest.mark.slow
def test_record(record):
    shares = {(m.k, m.model, m.layer): m.value for m in record.select(METRIC)}
    assert len(shares) == (1 + len(K_DIVISORS)) * len(LOCAL_WINDOWS) * 2 and all(
        value <= 1 for value in shares.values()
    )
    last = [shares[k, label(k, 16), 2] for k in (1, 4, 8, 16)]
    assert last == sorted(last) and 0.9 < last[0] < last[-1] < 1
    assert record.configuration["encoder"]["name"] == "tiny-bert" and "tiny-bert" in record.command
    (table,) = find("survival").tables([record])
    assert [row[0] for row in table.rows] == ["1", "4", "8", "16"]
    (chart,) = find("survival").charts([record])
    assert len(chart.series) == 3


def synthetic(record, share):
    """The record at another scale with ``share(n, k, W)`` in its last layer, and 0 in the first."""
    measurements = [
        Measurement(metric=METRIC, value=value, unit=UNIT, model=label(k, local_window), n=n, k=k, layer=layer)
        for n in (128, 512)
        for k in (1, *(n // divisor for divisor in K_DIVISORS))
        for local_window in LOCAL_WINDOWS
        for layer, value in ((1, 0.0), (2, share(n, k, local_window)))
    ]
    return record.copy_with(measurements=measurements, scale="encoder", identifier="survival-encoder")


def good(n, k, local_window):
    return 0.7 + 0.1 * (local_window > 0) + 0.05 * (k > 1)


CASES = {
    "survival-window": lambda n, k, local_window: good(n, k, local_window) if (n, k) != (512, 64) else 0.75,
    "survival-near": lambda n, k, local_window: good(n, k, local_window) if (n, k) != (128, 32) else 0.799,
    "survival-projections": lambda n, k, local_window: (
        good(n, k, local_window) if (n, k, local_window) != (512, 128, 16) else 0.79
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules(record, name):
    claim = next(claim for claim in CLAIMS if claim.identifier == name)
    assert claim.evaluate([synthetic(record, good)], "encoder").outcome == HOLDS
    assert claim.evaluate([synthetic(record, CASES[name])], "encoder").outcome == FAILS
    assert claim.evaluate([synthetic(record, good)], "cpu").outcome == UNMEASURED


def test_wrong_inputs_are_rejected(inputs, tmp_path):
    for arguments, message in (
        (["--scale", "cpu", *inputs[2:]], "no scale cpu; choose from smoke, encoder"),
        ([*inputs[:2], *inputs[4:]], "needs --encoder"),
        (inputs[:4], "needs --data"),
        ([*inputs, "--minutes", "1"], "takes no --minutes"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["reproduce", "survival", *arguments, "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="figure-3a takes no --encoder"):
        main(["reproduce", "figure-3a", "--scale", "smoke", "--data", inputs[-1], "--encoder", inputs[3]])
    short = save_encoder(tmp_path / "short", "bert", True, max_positions=16)
    with pytest.raises(SystemExit, match="--encoder must have at least 32 positions, got 16"):
        main(["reproduce", "survival", *inputs[:2], "--encoder", str(short), *inputs[4:], "--results", str(tmp_path)])
