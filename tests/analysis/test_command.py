"""``fairseq-linformer analyze``: files, output and error messages."""

import pytest

from fairseq_linformer.analysis import commands
from fairseq_linformer.analysis.spectrum_result import read_spectrum, suggest_projected_dim
from fairseq_linformer.cli import main

from .conftest import HEADS, LAYERS


def error_of(capsys, *arguments):
    """The error message of a command."""
    with pytest.raises(SystemExit) as end:
        main(["analyze", *map(str, arguments)])
    printed = capsys.readouterr().err
    return end.value.code if isinstance(end.value.code, str) else printed


@pytest.mark.slow
def test_spectrum_and_figure(roberta, text, tmp_path, capsys):
    spectrum = ["spectrum", roberta, "--source", text, "--out"]
    main(["analyze", *map(str, spectrum), str(tmp_path / "a"), "--num-sentences", "5", "--suggest-k", "0.5"])
    printed = capsys.readouterr().out
    assert "5 sentences of 16 tokens (of 5 requested) from" in printed and "at index 4 of 16" in printed
    k = suggest_projected_dim(read_spectrum(tmp_path / "a"), 0.5)
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
    assert "f.svg already exists" in error_of(capsys, "figure", tmp_path / "a", "--out", figure)
    assert "f.pdf" in error_of(capsys, "figure", tmp_path / "a", "--out", tmp_path / "f.pdf")
    assert "spectrum.npz" in error_of(capsys, "figure", tmp_path, "--out", tmp_path / "g.png")
    for options, message in (
        (["--suggest-k", 1.5], "--suggest-k"),
        (["--energy", "squares"], "--energy"),
        (["--tokens-per-sample", 17], "got 17"),
    ):
        assert message in error_of(capsys, *spectrum, tmp_path / "b", *options)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_options_of_spectrum(roberta, model, sentences, tmp_path, monkeypatch, capsys):
    """The command measures what the function does with the same options."""
    text, batches, accumulate = tmp_path / "text.txt", [], commands.accumulate_spectra
    text.write_text("a mat\nthe cat sat on the mat\n" * 4)
    monkeypatch.setattr(commands, "accumulate_spectra", lambda *args: (batches.append(args[-2]), accumulate(*args))[1])
    options = "--num-sentences 6 --tokens-per-sample 12 --sample-break-mode eos --short pad --index 2 --batch-size 3"
    options += " --num-checked 1 --suggest-k 0.9 --energy squares"
    main(["analyze", "spectrum", str(roberta), "--source", str(text), "--out", str(tmp_path / "a"), *options.split()])
    printed = capsys.readouterr().out
    lines = sentences(model, text, n=12, break_mode="lines", short="pad")
    expected = commands.analyze_spectrum(model, lines, tmp_path / "b", sentences=6, index=2, batch=3, check=1)
    found = read_spectrum(tmp_path / "a")
    assert (found.curve == expected.curve).all() and batches == [3, 3]
    assert {**found.facts, "seconds": 0} == {**expected.facts, "seconds": 0}
    assert "6 sentences of at most 12 tokens (of 6 requested)" in printed and "at index 2 of 12" in printed
    assert "for 0.9 of the sum of squared singular values, at n = 12:\n" in printed
    suggested, other = (suggest_projected_dim(expected, 0.9, energy) for energy in ("squares", "values"))
    assert suggested != other
    assert all(f"  --sharing {sharing} --projected-dim {k}" in printed for sharing, k in suggested.items())


def test_options_of_attention(roberta, text, model, sentences, tmp_path, monkeypatch, capsys):
    drawn = {}
    monkeypatch.setattr(
        commands, "draw_maps", lambda path, maps, words, title, is_projected: drawn.update({path: (maps, words)})
    )
    more = tmp_path / "more.txt"
    more.write_text("a mat\n")
    sources = ["--source", str(more), "--source", str(text)]
    options = "--sentence 3 --sentence 1 --tokens-per-sample 12 --sample-break-mode eos".split()
    main(["analyze", "attention", str(roberta), *sources, *options, "--out", str(tmp_path / "out")])
    expected = [tmp_path / "out" / f"sentence-{number}.png" for number in (1, 3)]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in expected] and [*drawn] == expected
    lines = [
        list(sentences(model, path, n=12, break_mode="lines", short="pad"))[i] for path, i in ((more, 0), (text, 1))
    ]
    for (maps, words), sentence in zip(drawn.values(), lines):
        assert words == model.tokenizer.convert_ids_to_tokens(sentence) and len(words) <= 12
        assert [map_.shape for map_ in maps] == [(HEADS, len(words), len(words))] * LAYERS
