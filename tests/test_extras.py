"""The module alone needs PyTorch; the extra `all` brings what the package uses, and commands say so."""

import ast
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .checkpoint_fixtures import ROWS
from .test_documentation import ROOT, blocks

BASE = {"torch", "fairseq", "fairseq_cli", "yaml"}
"""What the package itself requires, fairseq, which is in no extra, and what omegaconf requires."""


def find_modules() -> set[str]:
    """The modules of others that the package imports, without their submodules."""
    names = set()
    for path in (ROOT / "fairseq_linformer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"fairseq_linformer"}


def read_requirements(extra: str) -> set[str]:
    """The packages of an extra of setup.py."""
    every = map(Requirement, requires("fairseq-linformer"))
    return {canonicalize_name(each.name) for each in every if each.marker and each.marker.evaluate({"extra": extra})}


def test_every_imported_module_is_in_the_extra_all():
    distributions = packages_distributions()
    imported = {canonicalize_name(name) for module in find_modules() - BASE for name in distributions[module]}
    assert imported <= read_requirements("all")


def test_extras_that_join_others():
    extras = ["fairseq", "text", "evaluate", "huggingface", "onnx", "curves"]
    assert read_requirements("train") == set().union(*map(read_requirements, extras[:3]))
    assert read_requirements("all") == set().union(*map(read_requirements, extras))


@pytest.fixture(scope="module")
def run(extra_environment, tmp_path_factory):
    """A function that runs a command in an environment with an extra, by default in an empty folder."""
    bins, empty = {}, tmp_path_factory.mktemp("empty")

    def run(extra, *words, check=True, cwd=empty):
        if extra not in bins:
            bins[extra] = extra_environment(extra)
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment = {**kept, "PATH": f"{bins[extra]}:/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
        words = [*map(str, words)]
        return subprocess.run(words, cwd=cwd, env=environment, check=check, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_the_module_needs_pytorch_alone(run):
    (example,) = (block for block in blocks((ROOT / "README.md").read_text(), "python") if "import Linformer" in block)
    lines = f"{example}print(y.shape)\nimport numpy"
    ended = run("", "python", "-c", lines, check=False)
    assert ended.stdout == "torch.Size([2, 1000, 512])\n", ended.stderr
    assert ended.stderr.endswith("No module named 'numpy'\n")


MISSING = [
    "prepare pretraining out --tokenizer rows.tsv --source rows.tsv",
    "evaluate model rows.tsv",
    "export model out",
    "finetune rows.tsv model.pt",
    "reproduce list",
]


@pytest.mark.slow
@pytest.mark.parametrize("words", MISSING)
def test_a_command_says_how_to_install_what_is_missing(words, run, tmp_path):
    (tmp_path / "rows.tsv").write_text("sentence\tlabel\na cat\t1\n")
    ended = run("", "fairseq-linformer", *shlex.split(words), check=False, cwd=tmp_path)
    command = re.escape("pip install 'fairseq-linformer[all]'")
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    assert re.search(rf"^fairseq-linformer needs \w+, which is not installed; run: {command}\n\Z", ended.stderr, re.M)


@pytest.mark.slow
def test_evaluate_scores_an_export(run, classifier_folder, tmp_path):
    (tmp_path / "rows.tsv").write_text("sentence\tlabel\n" + "".join(f"{text}\tdog\n" for text, _ in ROWS))
    assert (
        "accuracy" in run("evaluate", "fairseq-linformer", "evaluate", classifier_folder, tmp_path / "rows.tsv").stdout
    )


@pytest.mark.slow
def test_text_prepares_text(run, tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"the document {number}\n\n" for number in range(50)))
    words = ["--vocab-size", "30", "--source", "text.txt"]
    run("text", "fairseq-linformer", "prepare", "sentencepiece", "pieces", *words, cwd=tmp_path)
    words = ["--tokenizer", "pieces", "--source", "text.txt", "--workers", "1", "--valid-share", "0.2"]
    run("text", "fairseq-linformer", "prepare", "pretraining", "out", *words, cwd=tmp_path)
    assert [*(tmp_path / "out").rglob("train.bin")]
