"""The embedded corpus: English text that every Python carries, so that the demo needs no network.

    python -m fairseq_linformer.corpus.embedded OUT

writes

    OUT/text/train.txt    OUT/text/valid.txt          text to pretrain on
    OUT/task/train.input0 OUT/task/train.label        a labelled task from the same text:
    OUT/task/valid.input0 OUT/task/valid.label        which package is this docstring from?

A document is one topic of ``help()`` (``pydoc_data.topics``) or one docstring of the standard library, some 2 million
characters together. The sources are parsed, not imported: importing has side effects (``import antigravity`` opens a
browser). Every run of the same Python gives the same text; another version of Python has other text.
"""

import argparse
import ast
import hashlib
import re
import sys
import sysconfig
import warnings
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..files import write_lines

# Tests describe nothing. The other folders are parts that distributors split off or leave
# out; without them the corpus of a Debian Python is nearly that of python.org.
SKIPPED_FOLDERS = frozenset(
    "__pycache__ dist-packages idle_test idlelib lib2to3 site-packages test tests turtledemo".split()
)
VALID_PERCENT = 10
CLASSES = 8
LEAST_WORDS = 5
"""Of a labelled example: "Return an iterator." says nothing about its origin."""
HIDDEN_NAME = "this"
"""Replaces the names of packages in a labelled example."""


class Document(NamedTuple):
    """One text, and the package it is from (None for the topics of ``help()``)."""

    package: Optional[str]
    """First folder of the file below the standard library, or None for a file beside them."""
    paragraphs: List[str]
    """Paragraphs without line breaks, each with single spaces between its words."""

    @property
    def text(self) -> str:
        """The paragraphs on one line."""
        return " ".join(self.paragraphs)

    @property
    def is_valid(self) -> bool:
        """Whether it is held out: one in ten, by a hash of the text, whatever other documents there are."""
        return int(hashlib.sha256(self.text.encode()).hexdigest(), 16) % 100 < VALID_PERCENT


def paragraphs(text: str) -> List[str]:
    """The paragraphs of ``text`` (separated by blank lines), white space collapsed, none empty."""
    joined = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [part for part in joined if part]


def docstrings(source: bytes) -> List[str]:
    """The docstrings of a module, its classes and its functions, without indentation.

    Raises:
        SyntaxError: this Python cannot read ``source``, a file in the encoding that it declares.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" does not concern our reader
        tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in found if text]


def topics(source: bytes) -> List[str]:
    """The texts of ``pydoc_data/topics.py``: the values of its one dictionary, by key; ValueError if it has none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "topics":
            found = ast.literal_eval(node.value)
            return [found[key] for key in sorted(found)]
    raise ValueError("no dictionary named topics")


def _texts(library: Path) -> Iterator[Tuple[Optional[str], str]]:
    """Pairs (package, raw text): the topics, then the docstrings in the order of their files."""
    topic_file = library / "pydoc_data" / "topics.py"
    if topic_file.is_file():  # some distributions leave it out; the docstrings are enough
        for text in topics(topic_file.read_bytes()):
            yield None, text
    files = {file.relative_to(library).as_posix(): file for file in library.rglob("*.py")}
    for name in sorted(files):
        folders = name.split("/")[:-1]
        if SKIPPED_FOLDERS.intersection(folders):
            continue
        try:
            found = docstrings(files[name].read_bytes())
        except SyntaxError:
            continue  # what this Python cannot read, nobody can import: templates and the like
        for text in found:
            yield (folders[0] if folders else None), text


def collect(library: Path) -> List[Document]:
    """All documents below ``library``, a standard library with its sources, without exact repeats, in a fixed order.

    Raises:
        ValueError: there are none.
    """
    documents = {}
    for package, text in _texts(Path(library)):
        document = Document(package, paragraphs(text))
        if document.paragraphs:
            documents.setdefault(document.text, document)
    if not documents:
        raise ValueError(f"{library} holds no documented Python source")
    return list(documents.values())


def labelled(documents: List[Document], classes: int = CLASSES) -> Dict[str, List[Tuple[str, str]]]:
    """The task "which package is this docstring from?".

    The classes are the ``classes`` packages with most docstrings, two at least. Their names are hidden wherever they
    stand as a word, in the text of every class alike, lest the answer be read off; examples that are then equal to an
    earlier one are dropped.

    Returns:
        ``{"train": [(text, label), ...], "valid": [...]}``; a document is valid here if and only if it is in
        ``text/valid.txt``.

    Raises:
        ValueError: fewer than two classes, or fewer packages than classes.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}; it must be at least 2")
    candidates = [
        document
        for document in documents
        if document.package and not document.package.startswith("_") and len(document.text.split()) >= LEAST_WORDS
    ]
    counts = Counter(document.package for document in candidates)
    if len(counts) < classes:
        raise ValueError(f"classes is {classes}; only {len(counts)} packages have docstrings")
    # By count, then by name: the order in a tie must not depend on the file system.
    names = sorted(counts, key=lambda name: (-counts[name], name))[:classes]
    hide = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, names)), re.IGNORECASE)

    examples, seen = {"train": [], "valid": []}, set()
    # Training first: of two equal examples, the one for validation is dropped.
    for document in sorted(candidates, key=lambda document: document.is_valid):
        text = hide.sub(HIDDEN_NAME, document.text)
        if document.package in names and text not in seen:
            seen.add(text)
            examples["valid" if document.is_valid else "train"].append((text, document.package))
    return examples


def write(out, library: Optional[Path] = None, classes: int = CLASSES) -> None:
    """Build the corpus and write it below ``out``, a folder; each file is written whole or not at all.

    Args:
        library: folder of the standard library; by default that of the running Python.
        classes: of the labelled task.

    Raises:
        ValueError: ``library`` holds too little, or ``classes`` is less than 2.
        OSError: ``out`` cannot be written.
    """
    out = Path(out)
    documents = collect(library or Path(sysconfig.get_path("stdlib")))
    examples = labelled(documents, classes)
    for split in ("train", "valid"):
        lines = []
        for document in documents:
            if document.is_valid == (split == "valid"):
                # A blank line between documents, as fairseq's examples for RoBERTa have it.
                lines += [""] * bool(lines) + document.paragraphs
        write_lines(out / "text" / f"{split}.txt", lines)
        write_lines(out / "task" / f"{split}.input0", (text for text, _ in examples[split]))
        write_lines(out / "task" / f"{split}.label", (label for _, label in examples[split]))


def main(arguments: Optional[List[str]] = None) -> None:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_linformer.corpus.embedded",
        description="Write the text that every Python carries as a corpus and a labelled task.",
    )
    parser.add_argument("out", metavar="OUT", help="folder for text/ and task/")
    parser.add_argument("--library", type=Path, help="another Python's standard library")
    parser.add_argument("--classes", type=int, default=CLASSES, help="of the labelled task")
    options = parser.parse_args(arguments)
    try:
        write(options.out, options.library, options.classes)
    except (OSError, ValueError) as error:
        sys.exit(f"embedded: {error}")


if __name__ == "__main__":
    main()
