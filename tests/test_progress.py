"""Progress where output is redirected."""

from fairseq_linformer import progress


def test_a_bar_counts_from_where_an_earlier_run_ended(capsys, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with progress.progress_bar("spectrum", 4, "sentence", initial=1) as bar:
        bar.update(2)
    assert "spectrum" in (printed := capsys.readouterr().err) and "3/4" in printed


def test_work_that_fails_at_once_shows_no_bar(capsys):
    with progress.progress_bar("spectrum", 4, "sentence"):
        pass
    assert capsys.readouterr().err == ""
