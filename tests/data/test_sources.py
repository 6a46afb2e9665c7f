"""Which files a source reads, which keys it allows, and damaged ones."""

import gzip
import lzma

import pyarrow
import pyarrow.parquet
import pytest

from fairseq_linformer.data import documents
from fairseq_linformer.data.documents import read_documents
from fairseq_linformer.data.sources import PRESETS, locate_source, parse_source

from .corpora import build_documents, hub, prepare, write_rows, write_text


def locate(source):
    return locate_source(parse_source(str(source)))


@pytest.mark.parametrize(
    "source, message",
    [
        ("x.txt,rows=0", "rows=0"),
        ("x.txt,format=doc", "format=doc"),
        ("x.txt,group=a,rows=2", "group=.*rows="),
        ("x.txt,revision=main", "revision=.*hub:NAME"),
        ("hub:x,format=text", "format=.*files"),
        ("x.txt,column=body", "x.txt.*column="),
        ("x.txt,rows=2", "rows="),
        ("y.jsonl,format=text,rows=2", "rows="),
        ("hub:hub,revision=main", "hub:hub.*revision="),
    ],
)
def test_keys_for_other_kinds_of_source_are_rejected(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "x.txt", build_documents())
    write_text(tmp_path / "y.jsonl", build_documents())
    hub(tmp_path, build_documents())
    with pytest.raises(ValueError, match=message):
        locate(source)


def test_presets(monkeypatch):
    import huggingface_hub

    asked = []

    def info(self, name, revision):
        asked.append((name, revision))
        return type("Info", (), {"sha": "0" * 40})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    found = {name: locate(name) for name in PRESETS}
    assert found["wikipedia"].title == "title" and found["bookcorpus"].rows == 1000
    assert all(len(source.revision) == 40 for source in found.values())
    # Wikipedia's commit is pinned.
    assert asked == [("lucadiliello/bookcorpusopen", None), ("bookcorpus", "refs/convert/parquet")]


def test_row_keys_are_allowed_for_folders_with_text_and_rows(tmp_path):
    write_text(tmp_path / "x.txt", build_documents())
    write_rows(tmp_path / "y.parquet", build_documents())
    assert locate(f"{tmp_path},rows=2").files == (str(tmp_path / "x.txt"), str(tmp_path / "y.parquet"))


def test_folders_are_read_recursively_without_hidden_ones(tmp_path):
    for name in ("a/b/x.txt", "y.txt", ".git/x.txt", "a/.cache/x.txt", ".x.txt"):
        (tmp_path / ".in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".in" / name).write_text("low\n")
    for location in (tmp_path / ".in", f"hub:{tmp_path / '.in'}"):
        assert locate(location).files == tuple(str(tmp_path / ".in" / name) for name in ("a/b/x.txt", "y.txt"))


def write_damaged(folder, name):
    """Write the damaged file that the name describes."""
    path, text = folder / name, "".join(f"hello {i}\n\n" for i in range(2000)).encode()
    whole = bytearray(write_rows(folder / "whole", build_documents()).read_bytes())
    strings = pyarrow.array([b"low", b"not \xff"], pyarrow.binary())
    strings = pyarrow.Array.from_buffers(pyarrow.string(), len(strings), strings.buffers())
    pyarrow.parquet.write_table(pyarrow.table({"text": strings}), folder / "bytes")
    contents = {
        "cut.txt.gz": gzip.compress(text)[:-200],
        "cut.txt.xz": lzma.compress(text)[:-50],
        "cut.txt.zst": pyarrow.compress(text, "zstd", asbytes=True)[:-100],
        "cut.parquet": whole[:-100],
        "rot.parquet": whole[:100] + bytes(300) + whole[400:],
        "latin.parquet": (folder / "bytes").read_bytes(),
        "column.parquet": whole,
        "latin.jsonl": b'{"text": "a"}\n{"text": "\xff"}\n',
        "cut.jsonl": b'{"text": "a"}\n\n{"text": ',
        "none.jsonl": b'{"text": "a"}\n{"body": "b"}\n',
        "number.jsonl": b'{"text": "a"}\n{"text": 5}\n',
        "surrogate.jsonl": b'{"text": "\\ud800"}\n',
        "title.jsonl": b'{"text": "low", "name": "\\ud800"}\n',
        "blank.txt": b"\n \n\n",
        "x.md": b"low\n",
    }
    path.write_bytes(contents[name])
    keys = {"column.parquet": ",column=body", "title.jsonl": ",title=name"}
    return f"{path}{keys.get(name, '')}"


@pytest.mark.parametrize(
    "name, message",
    [
        ("cut.txt.gz", " is truncated or damaged: "),
        ("cut.txt.xz", " is truncated or damaged: "),
        ("cut.txt.zst", " is truncated or damaged: "),
        ("cut.parquet", " is truncated or damaged: "),
        ("rot.parquet", " is truncated or damaged: "),
        ("latin.parquet", " is not UTF-8$"),
        ("column.parquet", " has no column body; choose from id, text"),
        ("latin.jsonl", ":2: not UTF-8$"),
        ("cut.jsonl", ":3: not JSON$"),
        ("none.jsonl", ", row 2 has no column text; choose from body"),
        ("number.jsonl", ", row 2 must have text in text, got '5'"),
        ("surrogate.jsonl", ", row 1 must have text in text, got "),
        ("title.jsonl", ", row 1 must have text in name, got "),
        ("blank.txt", " has no documents"),
        ("x.md", ": unknown suffix.*format="),
    ],
)
def test_damaged_sources_are_rejected(tmp_path, gpt2, name, message):
    source = write_damaged(tmp_path, name)
    with pytest.raises(ValueError, match=f"{name}{message}") as error:
        prepare(tmp_path / "out", source, gpt2)
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_damaged_hub_dataset_is_rejected(tmp_path, gpt2):
    source = hub(tmp_path, build_documents())
    (tmp_path / "hub/train-00001-of-00002.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueError, match="cannot load hub dataset .*hub: .*Parquet"):
        prepare(tmp_path / "out", source, gpt2)


def test_a_text_without_blank_lines_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_LINES", 2)
    (tmp_path / "a.txt").write_text("a\nb\n\nc\nd\n")
    assert len(documents.load_documents(locate_source(parse_source(str(tmp_path / "a.txt"))))) == 2
    (tmp_path / "b.txt").write_text("a\nb\nc\n")
    with pytest.raises(ValueError, match="a document of more than 2 lines; blank lines separate"):
        documents.load_documents(locate_source(parse_source(str(tmp_path / "b.txt"))))


def test_hub_datasets_are_streamed_too(tmp_path):
    source = locate(hub(tmp_path, build_documents()))
    assert list(read_documents(source, streaming=True)) == ["\n".join(lines) for lines in build_documents()]


def test_hub_error_without_a_message(monkeypatch):
    import huggingface_hub

    def info(*_, **__):
        raise TimeoutError

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    with pytest.raises(ValueError, match="some/name.*TimeoutError"):
        locate_source(parse_source("hub:some/name"))
