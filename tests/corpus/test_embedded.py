"""The embedded corpus: a small made-up library read by hand, and this Python's own."""

import pytest

from fairseq_linformer.corpus import embedded
from fairseq_linformer.files import write_lines

CLASS_WORDS = {"ham": "salted and smoked", "jam": "boiled with sugar"}


@pytest.fixture
def library(tmp_path):
    """A standard library of two packages, a module beside them, topics, and things to skip."""
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


def test_documents_are_collected_in_order_and_once(library):
    documents = embedded.collect(library)
    texts = [document.text for document in documents]
    assert texts[:2] == ["First topic. End.", "Second topic."]
    assert documents[0].paragraphs == ["First topic.", "End."]
    assert [document.package for document in documents[:2]] == [None, None]
    assert texts.count("A module by itself.") == 1
    assert len(texts) == len(set(texts)) == 2 + 1 + 2 * 60 + 200
    assert not {"A test.", "Not of the standard library.", "Not Python."}.intersection(texts)


def test_splits_share_no_document_and_task_follows_text(library, tmp_path):
    out = tmp_path / "out"
    embedded.main([str(out), "--library", str(library), "--classes", "2"])

    def read(name):
        return (out / name).read_text(encoding="utf-8")

    train, valid = (set(read(f"text/{split}.txt").split("\n\n")) for split in ("train", "valid"))
    train, valid = ({text.strip() for text in side} for side in (train, valid))
    assert len(train) + len(valid) == 323 and not train & valid
    assert 10 < len(valid) < 60  # a tenth of 323, give or take three standard deviations

    for split, mine in (("train", train), ("valid", valid)):
        examples, labels = (read(f"task/{split}.{kind}").splitlines() for kind in ("input0", "label"))
        assert len(examples) == len(labels) > 0
        for example, label in zip(examples, labels):
            assert CLASS_WORDS[label] in example
            assert "see the this module" in example and label.upper() not in example
            assert example.replace("the this", f"the {label.upper()}") in mine


def test_the_same_library_gives_the_same_bytes(library, tmp_path):
    for out in ("one", "two"):
        embedded.write(tmp_path / out, library, classes=2)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert [file.as_posix() for file in files] == [
        "task/train.input0", "task/train.label", "task/valid.input0", "task/valid.label",
        "text/train.txt", "text/valid.txt",
    ]  # fmt: skip
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_document_keeps_its_split_whatever_else_there_is(library):
    before = {d.text: d.is_valid for d in embedded.collect(library)}
    (library / "aaa.py").write_text('"""New and first."""')
    after = {d.text: d.is_valid for d in embedded.collect(library)}
    assert len(after) == len(before) + 1
    assert all(after[text] == before[text] for text in before)


@pytest.mark.parametrize("what", ["no library", "too few packages", "no classes", "unwritable"])
def test_bad_input_is_one_sentence(library, tmp_path, what):
    arguments = [str(tmp_path / "out"), "--library", str(library), "--classes", "2"]
    if what == "no library":
        arguments[2] = str(tmp_path / "nothing")
        expected = "nothing"
    elif what == "too few packages":
        arguments[4] = "3"
        expected = "classes is 3"
    elif what == "no classes":
        arguments[4] = "0"
        expected = "classes is 0"
    else:
        (tmp_path / "out").write_text("a file where a folder is wanted")
        expected = "Not a directory"
    with pytest.raises(SystemExit) as stopped:
        embedded.main(arguments)
    assert expected in str(stopped.value) and "\n" not in str(stopped.value)


def test_nothing_half_written_is_left(tmp_path):
    write_lines(tmp_path / "a.txt", ["whole"])

    def lines():
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(tmp_path / "a.txt", lines())
    assert (tmp_path / "a.txt").read_text() == "whole\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.slow
def test_this_python_has_enough(tmp_path):
    embedded.write(tmp_path)
    train = (tmp_path / "text/train.txt").read_text(encoding="utf-8")
    assert len(train) > 1_500_000
    labels = (tmp_path / "task/valid.label").read_text().split()
    assert len(set(labels)) == embedded.CLASSES and len(labels) > 150
    assert max(labels.count(name) for name in set(labels)) < 0.35 * len(labels)
    # No labelled example stands in the text to pretrain on, not even with its name hidden.
    valid = (tmp_path / "task/valid.input0").read_text(encoding="utf-8").splitlines()
    documents = {" ".join(text.split()) for text in train.split("\n\n")}
    assert not documents.intersection(valid)
