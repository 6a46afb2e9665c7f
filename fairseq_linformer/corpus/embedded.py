"""The embedded corpus: English text that every Python carries, so that the demo needs no network.

    python -m fairseq_linformer.corpus.embedded OUT

writes

    OUT/text/train.txt    OUT/text/valid.txt          text to pretrain on
    OUT/task/train.input0 OUT/task/train.label        a labelled task from the same text:
    OUT/task/valid.input0 OUT/task/valid.label        which package is this docstring from?

A document is one topic of ``help()`` (``pydoc_data.topics``) or one docstring of the
standard library, some 2 million characters together. The sources are parsed, not
imported: importing has side effects (``import antigravity`` opens a browser). The result
is the same in every run of the same Python; another version of Python has other text.
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
from typing import Iterator, List, NamedTuple, Optional

from ..files import write_lines

# Tests describe nothing. The other folders are parts that distributors split off or leave
# out; without them the corpus of a Debian Python is nearly that of python.org.
SKIPPED_FOLDERS = frozenset(
    "__pycache__ dist-packages idle_test idlelib lib2to3 site-packages test tests turtledemo".split()
)
VALID_PERCENT = 10
CLASSES = 8
LEAST_WORDS = 5
"""A labelled example has at least this many words: "Return an iterator." says nothing
about where it is from."""
HIDDEN_NAME = "this"
"""What stands in a labelled example where the name of a package stood."""


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
        """True for the documents held out: one in ten, by a hash of the text.

        So it depends on nothing else: neither on the order of the documents, nor on which
        others there are, nor on what the document is used for.
        """
        return int(hashlib.sha256(self.text.encode()).hexdigest(), 16) % 100 < VALID_PERCENT


def paragraphs(text: str) -> List[str]:
    """The paragraphs of ``text`` (blank lines part them), white space collapsed, none empty."""
    joined = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [part for part in joined if part]


def docstrings(source: bytes) -> List[str]:
    """The docstrings of a module, its classes and its functions, indentation removed.

    Args:
        source: a Python file, in the encoding that it declares.

    Raises:
        SyntaxError: this Python cannot read it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is not for our reader
        tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in found if text]


def topics(source: bytes) -> List[str]:
    """The texts of ``pydoc_data/topics.py``: the values of its one dictionary, by key.

    Raises:
        ValueError: there is no such dictionary.
    """
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "topics":
            found = ast.literal_eval(node.value)
            return [found[key] for key in sorted(found)]
    raise ValueError("no dictionary named topics")


def _texts(library: Path) -> Iterator[tuple]:
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
    """All documents below ``library``, exact repeats removed, in a fixed order.

    Args:
        library: folder of a Python's standard library, with its sources.

    Raises:
        ValueError: there is nothing to read there.
    """
    seen, documents = set(), []
    for package, text in _texts(Path(library)):
        document = Document(package, paragraphs(text))
        if document.paragraphs and document.text not in seen:
            seen.add(document.text)
            documents.append(document)
    if not documents:
        raise ValueError(f"{library} holds no documented Python source")
    return documents


def labelled(documents: List[Document], classes: int = CLASSES) -> dict:
    """The task "which package is this docstring from?".

    The classes are the ``classes`` packages with most docstrings, two at least. Their names
    are hidden wherever they stand as a word, in the text of every class alike, lest the answer
    be read off; examples that are then equal to an earlier one are dropped.

    Returns:
        ``{"train": [(text, label), ...], "valid": [...]}``; a document is valid here if and
        only if it is in ``text/valid.txt``.

    Raises:
        ValueError: fewer than two classes, or fewer packages than classes.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}; it must be at least 2")
    candidates = [
        document
        for document in documents
        if document.package
        and not document.package.startswith("_")
        and len(document.text.split()) >= LEAST_WORDS
    ]
    counts = Counter(document.package for document in candidates)
    if len(counts) < classes:
        raise ValueError(f"{len(counts)} packages with docstrings; {classes} classes are wanted")
    # By count, then by name: the order in a tie must not depend on the file system.
    names = sorted(counts, key=lambda name: (-counts[name], name))[:classes]
    hide = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, names)), re.IGNORECASE)

    examples, seen = {"train": [], "valid": []}, set()
    # Training first, so that of two equal examples the one that goes is not its.
    for document in sorted(candidates, key=lambda document: document.is_valid):
        text = hide.sub(HIDDEN_NAME, document.text)
        if document.package in names and text not in seen:
            seen.add(text)
            examples["valid" if document.is_valid else "train"].append((text, document.package))
    return examples


def write(out, library: Optional[Path] = None, classes: int = CLASSES) -> None:
    """Build the corpus and write it below ``out``; each file is there whole or not at all.

    Args:
        out: a folder; made if it is missing. Files of an earlier run are replaced.
        library: folder of the standard library; that of the running Python by default.
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
