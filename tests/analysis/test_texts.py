"""The stream of sentences: packed or by lines, skipped, padded and counted."""

import itertools
import json
import shutil

import pytest

from fairseq_linformer.analysis import run
from fairseq_linformer.analysis.texts import Counts

from .conftest import TEXT, N


def test_packed_sentences_are_what_masked_lm_has(model, sentences):
    ids = [model.tokenizer(line, add_special_tokens=False)["input_ids"] for line in TEXT * 20]
    stream = [token for line in ids for token in [*line, 2]]
    whole, rest = divmod(len(stream), N - 1)
    expected = [[0, *stream[i * (N - 1) : (i + 1) * (N - 1)]] for i in range(whole)]
    texts = sentences(model)
    assert list(texts) == expected == list(texts)
    assert texts.counts == Counts(texts=60, short=int(rest > 0), sentences=whole)
    # n with a rest.
    n = next(n for n in range(5, N) if len(stream) % (n - 1))
    assert list(sentences(model, n=n, short="pad"))[-1] == [0, *stream[len(stream) // (n - 1) * (n - 1) :]]


def test_lines_are_cut_skipped_or_padded_and_counted(model, sentences, tmp_path):
    lengths = [2 + len(model.tokenizer(line, add_special_tokens=False)["input_ids"]) for line in TEXT]
    n = sorted(lengths)[1]
    texts = sentences(model, n=n, cut="lines")
    found = list(texts)
    assert all(len(s) == n and s[0] == 0 and s[-1] == 2 for s in found)
    counts = texts.counts
    assert (counts.short, counts.cut) == (20 * sum(x < n for x in lengths), 20 * sum(x > n for x in lengths))
    assert len(found) == counts.sentences == 60 - counts.short
    padded = list(sentences(model, n=n, cut="lines", short="pad"))
    assert [len(s) for s in padded[:3]] == [min(n, x) for x in lengths]
    # A row of JSON lines is one text, whatever lines it has.
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": "a dog\nsat"}) + "\n" for _ in range(3)))
    rows = sentences(model, tmp_path / "rows.jsonl", cut="lines", short="pad")
    assert len(list(rows)) == 3 and rows.counts.texts == 3


def test_a_line_that_is_no_text_takes_no_other_with_it(model, sentences, tmp_path):
    (tmp_path / "lines.txt").write_bytes(b"the cat sat\nthe \xff dog\nthe mat\n" + b"a dog ran\n" * 2_000_000)
    texts = sentences(model, tmp_path / "lines.txt", n=8, cut="lines", short="pad")
    assert len([*itertools.islice(texts, 5)]) == 5 and texts.counts.unfit == 1
    (tmp_path / "bytes.txt").write_bytes("the cat".encode("utf-16") * 9)
    texts = sentences(model, tmp_path / "bytes.txt", n=8, cut="lines", short="pad")
    for measure in (
        lambda: run.spectrum(model, texts, tmp_path / "out", 2),
        lambda: run.attention(model, texts, [1], tmp_path / "out"),
    ):
        with pytest.raises(ValueError, match="documents are no text"):
            measure()


def test_output_in_the_folder_of_the_text_is_refused(model, sentences, text, tmp_path):
    shutil.copy(text, tmp_path)
    inside = sentences(model, tmp_path, n=8)
    with pytest.raises(ValueError, match="the folder of the text"):
        inside.check_apart(tmp_path / "out")
    inside.check_apart(tmp_path.parent / "out")
