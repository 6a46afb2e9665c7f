"""The runs on projections: what they are called, what they start from, and what the report makes of them."""

import sys

import pytest
import torch

from fairseq_linformer.reproduce import ledger, projection_report, projection_runs
from fairseq_linformer.reproduce.projection_starts import FINALISTS, STARTS


def test_every_run_has_a_folder_of_its_own():
    names = [run.name for run in projection_runs.runs()]
    assert len(set(names)) == len(names)
    assert all(name.count("/") == 2 and " " not in name for name in names)


def test_the_rate_is_tried_at_three_lengths_three_rates_and_three_seeds():
    for family in ("scratch", "converted"):
        runs = [run for run in projection_runs.runs() if run.family == family]
        for n in {run.n for run in runs}:
            assert len({run.scale for run in runs if run.n == n}) >= 3
            assert {run.seed for run in runs if run.n == n} == {1, 2, 3}
        assert len({run.n for run in runs}) == 3


@pytest.mark.parametrize("name", STARTS)
def test_starts_are_means_of_their_windows(name):
    _, start = STARTS[name]
    for layer in (0, 1):
        for head in range(4):
            for matrix in start(4, 13, layer, head):
                assert matrix.shape == (4, 13) and (matrix >= 0).all()
                if "times" not in name:
                    torch.testing.assert_close(matrix.sum(1), torch.ones(4))
    assert set(FINALISTS) <= set(STARTS)


def finished(out, run, losses):
    folder = out / run.name
    folder.mkdir(parents=True)
    (folder / "done").touch()
    (folder / "commit").write_text("abc\n")
    lines = [f'{{"valid_loss": "{loss}", "valid_num_updates": "{100 * (i + 1)}"}}' for i, loss in enumerate(losses)]
    (folder / "train.log").write_text("\n".join([*lines, "done training in 2.5 seconds"]))


def test_report(tmp_path, monkeypatch, capsys):
    scratch = [run for run in projection_runs.runs() if run.family == "scratch"]
    converted = [run for run in projection_runs.runs() if run.family == "converted"]
    one = [run for run in scratch if (run.n, run.scale) == (16, 1.0)]
    for run, loss in zip(one, (5, 6, 7)):
        finished(tmp_path / "out", run, [8, loss])
    finished(tmp_path / "out", converted[0], [4])
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "out"), "--data", "made up", "--results", str(results)])
    projection_report.main()
    entry = ledger.read(results / "projections-scratch.json")
    measured = entry.measured[projection_report.shape(one[0])]
    assert (measured.value, measured.spread, measured.repetitions) == (round((32 + 64 + 128) / 3, 2), [32, 128], 3)
    assert entry.seconds == 7.5 and "--projected-dim 4" in entry.configuration["example"]
    assert "| n=16 k=4 headwise, rate 1 | 74.7 | 32.0 to 128.0 | 3 |" in (results / "projections.md").read_text()
    assert (results / "projections.png").stat().st_size > 1000
    total = sum(1 for _ in projection_runs.runs())
    assert f"{total - 4} runs are not done" in capsys.readouterr().out


def test_report_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path), "--data", "made up"])
    with pytest.raises(SystemExit, match="has no runs that are done"):
        projection_report.main()
