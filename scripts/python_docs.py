"""English text that every Python installation includes, so that the demo needs no network.

    python scripts/python_docs.py OUT

writes

    OUT/text.txt                   text for pretraining, with a blank line between documents
    OUT/train.tsv, OUT/valid.tsv   a task from the same text, with the columns text and package: which package is this
                                   docstring from? The docstrings of valid.tsv are not in text.txt.

A document is a topic of ``help()`` (``pydoc_data.topics``) or a docstring of the standard library, about 2 million
characters in total. Sources are parsed, not imported: imports have side effects (``import antigravity`` opens a
browser). The output is deterministic for a given Python version.
"""

import ast
import hashlib
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Tests describe nothing. Distributors split off or omit the other folders; without them the corpus of Debian's Python
# nearly equals that of python.org's.
SKIPPED_FOLDERS = frozenset(
    ["__pycache__", "dist-packages", "idle_test", "idlelib", "lib2to3", "site-packages", "test", "tests", "turtledemo"]
)
VALID_PERCENT = 10
NUM_CLASSES = 8
MIN_WORDS = 5
"""Minimum length of a labeled example: "Return an iterator." could be from any package."""
HIDDEN_NAME = "this"
"""Replaces package names in labeled examples."""


class Document(NamedTuple):
    """A document and its package."""

    package: str | None
    """Top-level package; None for a top-level module or a ``help()`` topic."""
    paragraphs: list[str]
    """Each on one line, with single spaces."""

    @property
    def text(self) -> str:
        """The paragraphs on one line."""
        return " ".join(self.paragraphs)

    @property
    def is_valid(self) -> bool:
        """Whether it is held out: one document in ten, by a hash of its text alone."""
        return int(hashlib.sha256(self.text.encode()).hexdigest(), 16) % 100 < VALID_PERCENT


def split_text(text: str) -> list[str]:
    """The nonempty paragraphs of ``text`` (separated by blank lines), white space collapsed."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [paragraph for paragraph in paragraphs if paragraph]


def extract_docstrings(source: bytes) -> list[str]:
    """Dedented docstrings of a module, its classes and its functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence"
        tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in docstrings if text]


def extract_topics(source: bytes) -> list[str]:
    """The values of the dictionary in ``pydoc_data/topics.py``, sorted by key."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "topics":
            topics = ast.literal_eval(node.value)
            return [topics[key] for key in sorted(topics)]
    raise ValueError("pydoc_data/topics.py has no dictionary named topics")


def _read_texts(library: Path) -> Iterator[tuple[str | None, str]]:
    """(package, raw text): the topics, then the docstrings in the order of their files."""
    topic_file = library / "pydoc_data" / "topics.py"
    if topic_file.is_file():  # some distributions omit it; the docstrings are enough
        for text in extract_topics(topic_file.read_bytes()):
            yield None, text
    files = {file.relative_to(library).as_posix(): file for file in library.rglob("*.py")}
    for name in sorted(files):
        folders = name.split("/")[:-1]
        if SKIPPED_FOLDERS.intersection(folders):
            continue
        try:
            docstrings = extract_docstrings(files[name].read_bytes())
        except SyntaxError:
            continue  # templates and the like
        for text in docstrings:
            yield (folders[0] if folders else None), text


def collect_documents(library: Path) -> list[Document]:
    """All documents of a standard library, without exact duplicates, in a fixed order."""
    documents: dict[str, Document] = {}
    for package, text in _read_texts(library):
        document = Document(package, split_text(text))
        if document.paragraphs:
            documents.setdefault(document.text, document)
    return list(documents.values())


def build_examples(documents: list[Document]) -> dict[str, list[tuple[str, str]]]:
    """Build the task "which package is this docstring from?".

    The classes are the ``NUM_CLASSES`` packages with the most docstrings. Their names are replaced in all examples, so
    that the text does not contain the label; examples that become duplicates are dropped.

    Returns:
        ``{"train": [(text, package), ...], "valid": [...]}``.
    """
    candidates = [
        (document.package, document)
        for document in documents
        if document.package and not document.package.startswith("_") and len(document.text.split()) >= MIN_WORDS
    ]
    counts = Counter(package for package, _ in candidates)
    # By count, then by name: ties must not depend on the file system.
    names = sorted(counts, key=lambda name: (-counts[name], name))[:NUM_CLASSES]
    hidden = re.compile(r"\b({})\b".format("|".join(map(re.escape, names))), re.IGNORECASE)

    examples: dict[str, list[tuple[str, str]]] = {"train": [], "valid": []}
    seen = set()
    # Training first: of two equal examples, the one for validation is dropped.
    for package, document in sorted(candidates, key=lambda candidate: candidate[1].is_valid):
        text = hidden.sub(HIDDEN_NAME, document.text)
        if package in names and text not in seen:
            seen.add(text)
            examples["valid" if document.is_valid else "train"].append((text, package))
    return examples


def write_corpus(out: Path, library: Path) -> None:
    """Write text and task of a standard library to the folder ``out``."""
    documents = collect_documents(library)
    out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(document.paragraphs) for document in documents if not document.is_valid)
    (out / "text.txt").write_text(text + "\n", encoding="utf-8")
    for split, examples in build_examples(documents).items():
        rows = ("text\tpackage", *("\t".join(example) for example in examples))
        (out / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]), Path(sysconfig.get_path("stdlib")))
