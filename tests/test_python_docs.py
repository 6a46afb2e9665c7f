"""scripts/python_docs.py: the documentation of a small standard library with known text."""

import pytest

from scripts import python_docs

CLASS_WORDS = {"ham": "salted and smoked", "jam": "boiled with sugar"}


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of two packages, a top-level module, topics, and files to skip."""
    monkeypatch.setattr(python_docs, "NUM_CLASSES", 2)

    def put(name, text):
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    put("pydoc_data/topics.py", "topics = {'b': 'Second topic.\\n', 'a': 'First\\n topic.\\n\\nEnd.'}")
    put("alone.py", '"""A module\n   by itself."""\nraise SystemExit("imported")\n')
    for package, words in CLASS_WORDS.items():
        docs = [f'"""Number {i} is meat or fruit, {words}; see the {package.upper()} module."""' for i in range(60)]
        put(f"{package}/code.py", "".join(f"def f{i}():\n    {text}\n" for i, text in enumerate(docs)))
    put("ham/again.py", '"""A module by itself."""\n')  # an exact repeat
    put("ham/test/test_code.py", '"""A test."""\n')
    put("site-packages/other.py", '"""Not of the standard library."""\n')
    put("ham/broken.py", '"""Not Python."""\n)\n')
    return tmp_path / "lib"


def test_documents_are_unique_and_ordered(library):
    documents = python_docs.collect_documents(library)
    texts = [document.text for document in documents]
    assert texts[:3] == ["First topic. End.", "Second topic.", "A module by itself."]
    assert documents[0].paragraphs == ["First topic.", "End."]
    assert [document.package for document in documents[2:4]] == [None, "ham"]
    assert len(set(texts)) == len(texts) == 2 + 1 + 2 * 60


def test_task_hides_the_package_and_its_development_set_is_not_in_the_text(library, tmp_path):
    python_docs.write_corpus(tmp_path / "out", library)
    text = {document.strip() for document in (tmp_path / "out/text.txt").read_text().split("\n\n")}
    counts = {}
    for split in ("train", "valid"):
        header, *rows = [line.split("\t") for line in (tmp_path / f"out/{split}.tsv").read_text().splitlines()]
        assert header == ["text", "package"]
        counts[split] = len(rows)
        for example, package in rows:
            assert CLASS_WORDS[package] in example and "see the this module" in example
            assert (example.replace("the this", f"the {package.upper()}") in text) == (split == "train")
    assert sum(counts.values()) == 120 and 2 < counts["valid"] < 30  # a tenth, within five standard deviations
