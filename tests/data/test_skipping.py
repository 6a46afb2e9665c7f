"""Damaged sources are rejected; unfit documents are skipped, counted and located."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from fairseq_linformer.data import workers
from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus
from fairseq_linformer.data.tokenizer import GPT2

from .corpora import SMALL, damaged, read, reference, sum_of_documents


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, message",
    [
        ("cut.txt.gz", "cut.txt.gz is "),
        ("cut.txt.xz", "cut.txt.xz is "),
        ("cut.txt.zst", "cut.txt.zst is "),
        ("cut.parquet", "cut.parquet is "),
        ("rot.parquet", "rot.parquet is "),
        ("empty.txt", "empty.txt"),
        ("x.md", "x.md.*format"),
        ("column.parquet", "'body'.*id, text"),
        ("missing.txt", "missing.txt"),
        ("hub", "hub dataset .*hub"),
    ],
)
def test_damaged_sources_are_rejected(tmp_path, gpt2, name, message):
    source = damaged(tmp_path, name)
    with pytest.raises(ValueError, match=message) as error:
        prepare_corpus(tmp_path / "out", CorpusOptions((source,), str(gpt2), valid_share=0.3), workers=1)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out" / "manifest.json").exists() and not list((tmp_path / "out").glob("shard*"))


def test_unfit_row_is_skipped_alone(tmp_path, gpt2):
    good = [[f"hello {i}"] for i in range(150)]
    rows = [json.dumps({"text": line}) for [line] in good[:75]]
    (tmp_path / "x.jsonl").write_text("\n".join([*rows, "[" * 100_000]))
    strings = pyarrow.array([line.encode() for [line] in good[75:]] + [b"not \xff"], pyarrow.binary())
    strings = pyarrow.Array.from_buffers(pyarrow.string(), len(strings), strings.buffers())
    pyarrow.parquet.write_table(pyarrow.table({"text": strings}), tmp_path / "y.parquet")
    sources = (f"{tmp_path}/x.jsonl", f"{tmp_path}/y.parquet")
    prepare_corpus(tmp_path / "out", CorpusOptions(sources, str(gpt2), valid_share=0.3, max_skipped=0.1), workers=1)
    assert read(tmp_path / "out") == reference(good, GPT2(gpt2), 0.3)
    assert [source["unfit"] for source in json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"]] == [
        {"not JSON": 1},
        {"not UTF-8": 1},
    ]


def test_unfit_documents_are_counted_and_located(tmp_path, gpt2, monkeypatch):
    good = [f"hello {i}" for i in range(40)]
    lines = [line.encode() for line in good]
    lines[3] = b"not utf \xff-8"
    lines[30] = b"first\nsecond\0 line"
    lines[35] = b"x" * ((1 << 20) + 5)
    (tmp_path / "x.txt").write_bytes(b"\n\n".join(lines))
    rows = ['{"text": "row"}', "{", "[1]", '{"body": "y"}', '{"text": "\\ud800"}', '{"text": "  "}']
    (tmp_path / "y.jsonl").write_text("\n".join(rows))
    options = dict(
        sources=(f"{tmp_path}/x.txt", f"{tmp_path}/y.jsonl"), gpt2=str(gpt2), valid_share=0.3, chunk_mib=SMALL / 10
    )
    with pytest.raises(ValueError, match="--max-skipped 0.01 .*3 of 40.*x.txt, line 7: not UTF-8"):
        prepare_corpus(tmp_path / "out", CorpusOptions(**options), workers=1)
    monkeypatch.setattr(workers, "_tokenize_one", None)  # chunks are not tokenized again
    prepare_corpus(tmp_path / "out", CorpusOptions(**options, max_skipped=0.7), workers=1)
    kept = [[line] for i, line in enumerate(good) if i not in (3, 30, 35)] + [["row"]]
    assert read(tmp_path / "out") == reference(kept, GPT2(gpt2), 0.3)
    text, rows = json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"]
    assert all(sum_of_documents(source) == source["documents_read"] for source in (text, rows))
    assert text["unfit"] == {"NUL byte": 1, "a line of over 999,000 bytes": 1, "not UTF-8": 1}
    assert text["examples"] == [
        f"{tmp_path}/x.txt, line {n}: {why}"
        for n, why in ((7, "not UTF-8"), (62, "NUL byte"), (72, "a line of over 999,000 bytes"))
    ]
    assert (
        rows["unfit"] == {"no text in text": 1, "not JSON": 1, "not UTF-8": 1, "not a JSON object": 1}
        and rows["empty"] == 1
    )
    assert rows["examples"][0] == f"{tmp_path}/y.jsonl, line 2: not JSON"


def test_every_source_is_checked():
    """15 skipped documents are few of 2,015, but all of the second source."""
    from fairseq_linformer.data.manifest import check_skipped

    good = {"documents_read": 2000, "unfit": {}, "examples": []}
    bad = {"documents_read": 15, "unfit": {"no text in text": 15}, "examples": ["y.jsonl, line 1: no text in text"]}
    with pytest.raises(ValueError, match="15 of 15; for example y.jsonl, line 1"):
        check_skipped([good, bad], 0.01)


def test_too_long_document_is_skipped(tmp_path, gpt2, monkeypatch):
    from fairseq_linformer.data import documents

    monkeypatch.setattr(documents, "MAX_DOCUMENT", 5000)
    (tmp_path / "x.txt").write_text("hello\n\n" + "low\n" * 3000 + "\nlower\n\nworld\n")
    chunk = documents.Chunk(0, str(tmp_path / "x.txt"), "text", 0, None, 1)
    documents_read = list(documents.read_documents(chunk, documents.Source("")))
    assert [(raw.text, raw.offset, raw.unfit and raw.unfit.reason) for raw in documents_read] == [
        (b"hello\n", 0, None),
        (None, 7, "a document of over 16 MiB"),
        (b"lower\n", 12008, None),
        (b"world\n", 12015, None),
    ]


def test_text_without_blank_lines_gets_a_hint():
    from fairseq_linformer.data.documents import BLANK_LINE_HINT, LONG_DOCUMENT
    from fairseq_linformer.data.manifest import check_skipped

    read = [{"documents_read": 1, "unfit": {LONG_DOCUMENT: 1}, "examples": [f"x.txt, line 1: {LONG_DOCUMENT}"]}]
    with pytest.raises(ValueError, match=f"x.txt, line 1: {LONG_DOCUMENT}; {BLANK_LINE_HINT}$"):
        check_skipped(read, 0.01)


def test_overlong_blank_lines_do_not_end_documents(tmp_path):
    from fairseq_linformer.data import documents, plan, sources

    (tmp_path / "x.txt").write_bytes(
        b"".join(b"low %d\n" % i for i in range(300)) + b" " * 1_500_000 + b"\n" + b"tail\n" * 300 + b"\nend\n"
    )
    source = sources.parse_source(str(tmp_path / "x.txt"))
    for size in (1000, 1 << 24):
        documents_read = [
            raw for chunk in plan.make_plan([source], size).chunks for raw in documents.read_documents(chunk, source)
        ]
        assert [(raw.text, raw.unfit and raw.unfit.reason) for raw in documents_read] == [
            (None, "a line of over 999,000 bytes"),
            (b"end\n", None),
        ]
