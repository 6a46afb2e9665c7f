"""``fairseq-linformer analyze``: what it writes and prints, and what it refuses."""

import json

import pytest

from fairseq_linformer.analysis.result import read, suggest
from fairseq_linformer.analysis.theorems import powers
from fairseq_linformer.cli import main


def refused(capsys, *arguments):
    """The error message of a command."""
    with pytest.raises(SystemExit) as end:
        main(["analyze", *map(str, arguments)])
    printed = capsys.readouterr().err
    return end.value.code if isinstance(end.value.code, str) else printed


@pytest.mark.slow
def test_spectrum_and_figure(roberta, text, tmp_path, capsys):
    spectrum = ["spectrum", roberta, "--text", text, "--out"]
    main(["analyze", *map(str, spectrum), str(tmp_path / "a"), "--sentences", "5", "--suggest-k", "0.5"])
    printed = capsys.readouterr().out
    assert "5 sentences of 16 tokens (5 asked for) from" in printed and "at index 4 of 16" in printed
    k = suggest(read(tmp_path / "a"), 0.5)
    assert f"  --sharing none --projected-dim {k['none']}\n" in printed
    figure = tmp_path / "f.svg"
    main(
        [
            "analyze",
            "figure",
            str(tmp_path / "a"),
            str(tmp_path / "a"),
            "--title",
            "one",
            "--title",
            "two",
            "--out",
            str(figure),
        ]
    )
    assert "<svg" in figure.read_text()
    assert "f.svg exists" in refused(capsys, "figure", tmp_path / "a", "--out", figure)
    assert "f.pdf" in refused(capsys, "figure", tmp_path / "a", "--out", tmp_path / "f.pdf")
    assert "spectrum.npz" in refused(capsys, "figure", tmp_path, "--out", tmp_path / "g.png")
    for options, named in (
        (["--suggest-k", 1.5], "--suggest-k"),
        (["--energy", "squares"], "--energy"),
        (["--length", 17], "length is 17"),
    ):
        assert named in refused(capsys, *spectrum, tmp_path / "b", *options)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_theorems(roberta, text, tmp_path, capsys):
    on_model = ["--model", str(roberta), "--text", str(text)]
    main(["analyze", "theorems", str(tmp_path / "random"), "--lengths", "8,16", "--width", "3", "--draws", "2"])
    main(["analyze", "theorems", str(tmp_path / "model"), *on_model, "--sentences", "1", "--draws", "2"])
    for name, lengths, heads in (
        ("random", [8, 16], "random"),
        ("model", [16], f"{roberta.parent.name}/{roberta.name}"),
    ):
        found = json.loads((tmp_path / name / "theorems.json").read_text())
        assert [row["n"] for row in found["theorem1"]] == lengths and found["theorem1"][-1]["k"] == powers(8, 16) == [
            8,
            16,
        ]
        assert {row["k"] for row in found["rank_k"]} == {8, 16} and found["theorem2"]["step1"]
        assert (found["heads"], found.get("text")) == (heads, None if name == "random" else "text.txt")
        assert all(
            (tmp_path / name / f"{figure}.png").stat().st_size > 5000 for figure in ("theorem1", "theorem2", "rank_k")
        )
    assert "has files in it" in refused(capsys, "theorems", tmp_path / "model")
    for options, named in (
        (on_model[:2], "--text"),
        (on_model[2:], "--model"),
        ([*on_model, "--width", 4], "--width"),
        ([*on_model, "--sentences", 900], "900"),
        ([*on_model, "--length", 7], "n = 7"),
        (["--lengths", "7,16"], "lengths"),
        (["--lengths", "16,8"], "lengths"),
        (["--lengths", "many"], "'many'"),
        (["--epsilon", 1], "epsilon is 1"),
        (["--draws", 0], "draws is 0"),
    ):
        assert named in refused(capsys, "theorems", tmp_path / "new", *options), options
    assert not (tmp_path / "new").exists()
