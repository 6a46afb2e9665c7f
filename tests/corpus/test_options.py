"""Options and output folders that are refused."""

import pytest

from fairseq_linformer.corpus.pretraining import Options, prepare

from .corpora import made_up, write_text


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(sources=()), "--source"),
        (dict(gpt2=None), "--gpt2.*--sentencepiece"),
        (dict(sentencepiece="x"), "--gpt2.*--sentencepiece"),
        (dict(valid_share=0.0), "valid_share is 0.0"),
        (dict(shards=0), "shards is 0"),
        (dict(shards=1001), "shards is 1001.*1,000"),
        (dict(chunk_mib=float("inf")), "chunk_mib is inf"),
        (dict(chunk_mib=0), "chunk_mib is 0"),
        (dict(max_skipped=1.0), "max_skipped is 1.0"),
        (dict(sources=("x.txt,colour=red",)), "colour=red"),
        (dict(sources=("x.txt,rows=0",)), "rows=0"),
        (dict(sources=("x.txt,format=doc",)), "format=doc"),
        (dict(sources=("x.txt,group=a,rows=2",)), "group= and rows="),
        (dict(shards=50), "train.*--shards"),
        (dict(valid_share=1e-9), "valid, of 57 .*--valid-share"),
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
    with pytest.raises(ValueError, match="out has other files"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2)))
    for part in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"part is {part[0]}/{part[1]}"):
            prepare(tmp_path / "new", Options((str(source),), str(gpt2)), part=part)
    assert not (tmp_path / "new").exists()
