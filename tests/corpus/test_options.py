"""Options and output folders that are refused."""

from dataclasses import fields

import pytest

from fairseq_linformer.corpus.pretraining import Options, prepare

from .corpora import made_up, write_text


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(sources=()), "there is no source"),
        (dict(gpt2=None), "there must be one tokenizer"),
        (dict(sentencepiece="x"), "there must be one tokenizer"),
        (dict(valid_share=0.0), "valid_share is 0.0"),
        (dict(shards=0), "shards is 0"),
        (dict(shards=1001), "shards is 1001; it must be from 1 to 1,000"),
        (dict(chunk_mib=float("inf")), "chunk_mib is inf"),
        (dict(chunk_mib=0), "chunk_mib is 0"),
        (dict(max_skipped=1.0), "max_skipped is 1.0; it must be at least 0 and below 1"),
        (dict(sources=("x.txt,colour=red",)), "has 'colour=red'; it must be one of"),
        (dict(sources=("x.txt,rows=0",)), "has rows=0"),
        (dict(sources=("x.txt,format=doc",)), "has format=doc"),
        (dict(sources=("x.txt,group=a,rows=2",)), "has both group= and rows="),
        (dict(shards=50), "no document fell into train"),
        (dict(valid_share=1e-9), "no document fell into valid, of 57 in all; raise --valid-share"),
    ],
)
def test_options_are_refused(tmp_path, gpt2, fields, message):
    source = write_text(tmp_path / "text.txt", made_up())
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "out", Options(**{"sources": (str(source),), "gpt2": str(gpt2), "valid_share": 0.3, **fields}), workers=1)


def test_other_files_are_left_alone(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("dear")
    with pytest.raises(ValueError, match="has other files in it"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2)))
    for part in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="it must be I/N with I from 1 to N"):
            prepare(tmp_path / "new", Options((str(source),), str(gpt2)), part=part)
    assert not (tmp_path / "new").exists()
