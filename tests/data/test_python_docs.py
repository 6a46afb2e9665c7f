"""Python's documentation as a corpus: from a small library with known text, and from this Python."""

import subprocess
import sys

import pytest

from fairseq_linformer.data import python_docs

CLASS_WORDS = {"ham": "salted and smoked", "jam": "boiled with sugar"}


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of two packages, a top-level module, topics, and files to skip."""
    monkeypatch.setattr(python_docs, "NUM_CLASSES", 2)
    root = tmp_path / "lib"

    def put(name, text):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")

    put("pydoc_data/topics.py", "topics = {'b': 'Second topic.\\n', 'a': 'First\\n topic.\\n\\nEnd.'}")
    put("alone.py", '"""A module\n   by itself."""\nraise SystemExit("imported")\n')
    for package, words in CLASS_WORDS.items():
        functions = "".join(
            f'def f{i}():\n    """Number {i} is meat or fruit, {words}; see the {package.upper()} module."""\n'
            for i in range(60)
        )
        put(f"{package}/code.py", functions)
    put("ham/again.py", '"""A module by itself."""\n')  # an exact repeat
    put("ham/test/test_code.py", '"""A test."""\n')
    put("site-packages/other.py", '"""Not of the standard library."""\n')
    put("ham/broken.py", '"""Not Python."""\n)\n')
    put("_private/code.py", "".join(f'def g{i}():\n    """Private number {i}."""\n' for i in range(200)))
    return root


def test_documents_are_unique_and_ordered(library):
    documents = python_docs.collect_documents(library)
    texts = [document.text for document in documents]
    assert texts[:2] == ["First topic. End.", "Second topic."]
    assert documents[0].paragraphs == ["First topic.", "End."]
    assert [document.package for document in documents[:2]] == [None, None]
    assert texts.count("A module by itself.") == 1
    assert len(texts) == len(set(texts)) == 2 + 1 + 2 * 60 + 200
    assert not {"A test.", "Not of the standard library.", "Not Python."}.intersection(texts)


def test_splits_are_disjoint_and_the_task_has_the_same_split(library, tmp_path):
    out = tmp_path / "out"
    python_docs.write_corpus(out, library)

    def read(name):
        return (out / name).read_text(encoding="utf-8")

    train, valid = (set(read(f"text/{split}.txt").split("\n\n")) for split in ("train", "valid"))
    train, valid = ({text.strip() for text in side} for side in (train, valid))
    assert len(train) + len(valid) == 323 and not train & valid
    assert 10 < len(valid) < 60  # a tenth of 323, within five standard deviations

    for split, documents in (("train", train), ("valid", valid)):
        examples, labels = (read(f"task/{split}.{kind}").splitlines() for kind in ("input0", "label"))
        assert len(examples) == len(labels) > 0
        for example, label in zip(examples, labels):
            assert CLASS_WORDS[label] in example
            assert "see the this module" in example and label.upper() not in example
            assert example.replace("the this", f"the {label.upper()}") in documents


def test_output_is_deterministic(library, tmp_path):
    for out in ("one", "two"):
        python_docs.write_corpus(tmp_path / out, library)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert [file.as_posix() for file in files] == [
        "task/train.input0",
        "task/train.label",
        "task/valid.input0",
        "task/valid.label",
        "text/train.txt",
        "text/valid.txt",
    ]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_split_of_a_document_depends_on_its_text_only(library):
    before = {d.text: d.is_valid for d in python_docs.collect_documents(library)}
    (library / "aaa.py").write_text('"""New and first."""')
    after = {d.text: d.is_valid for d in python_docs.collect_documents(library)}
    assert len(after) == len(before) + 1
    assert all(after[text] == before[text] for text in before)


@pytest.mark.slow
def test_this_python_has_enough_documentation(tmp_path):
    subprocess.run([sys.executable, "-m", "fairseq_linformer.data.python_docs", tmp_path], check=True)
    train = (tmp_path / "text/train.txt").read_text(encoding="utf-8")
    assert len(train) > 1_500_000
    labels = (tmp_path / "task/valid.label").read_text().split()
    assert len(set(labels)) == python_docs.NUM_CLASSES and len(labels) > 150
    assert max(labels.count(name) for name in set(labels)) < 0.35 * len(labels)
    # No validation example is in the pretraining text.
    valid = (tmp_path / "task/valid.input0").read_text(encoding="utf-8").splitlines()
    documents = {" ".join(text.split()) for text in train.split("\n\n")}
    assert not documents.intersection(valid)
