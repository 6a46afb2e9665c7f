"""Rejected options and output folders."""

import pytest

from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus

from .corpora import build_documents, write_text


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(sources=()), "--source"),
        (dict(gpt2=None), "gpt2.*sentencepiece"),
        (dict(sentencepiece="x"), "gpt2.*sentencepiece"),
        (dict(tokenizer_json="x"), "gpt2.*tokenizer_json"),
        (dict(valid_share=0.0), "valid_share.*0.0"),
        (dict(shards=0), "shards.* 0$"),
        (dict(shards=1001), "shards.*1,000.*1001"),
        (dict(chunk_mib=float("inf")), "chunk_mib.*inf"),
        (dict(chunk_mib=0), "chunk_mib.* 0$"),
        (dict(max_skipped=1.0), "max_skipped.*1.0"),
        (dict(sources=("x.txt,colour=red",)), "colour=red"),
        (dict(sources=("x.txt,rows=0",)), "rows=0"),
        (dict(sources=("x.txt,format=doc",)), "format=doc"),
        (dict(sources=("x.txt,group=a,rows=2",)), "group=.*rows="),
        (dict(shards=50), "train.*--shards"),
        (dict(valid_share=1e-9), "valid .*57 .*--valid-share"),
    ],
)
def test_rejected_options(tmp_path, gpt2, fields, message):
    source = write_text(tmp_path / "text.txt", build_documents())
    with pytest.raises(ValueError, match=message):
        prepare_corpus(
            tmp_path / "out",
            CorpusOptions(**{"sources": (str(source),), "gpt2": str(gpt2), "valid_share": 0.3, **fields}),
            workers=1,
        )


def test_other_files_in_the_output_folder_are_kept(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", build_documents())
    for path in (tmp_path / "out" / "thesis.tex", tmp_path / "out" / "work" / "chapter.tex"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("dear")
    with pytest.raises(ValueError, match="OUT must .*other files"):
        prepare_corpus(tmp_path / "out", CorpusOptions((str(source),), str(gpt2)))
    assert {path.name for path in (tmp_path / "out").rglob("*")} == {"thesis.tex", "work", "chapter.tex"}
    for part in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"part .* {part[0]}/{part[1]}"):
            prepare_corpus(tmp_path / "new", CorpusOptions((str(source),), str(gpt2)), part=part)
    assert not (tmp_path / "new").exists()
