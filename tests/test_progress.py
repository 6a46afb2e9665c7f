"""Progress where output is redirected."""

from fairseq_linformer.progress import progress_bar


def test_a_bar_counts_from_where_an_earlier_run_ended(capsys):
    with progress_bar("spectrum", 4, "sentence", initial=1) as bar:
        bar.update(2)
    assert "spectrum" in (printed := capsys.readouterr().err) and "3/4" in printed
