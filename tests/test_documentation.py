"""The README's commands run; commands in the documentation have options that exist."""

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fairseq_linformer.cli import build_parser, main, parsers

from .checkpoints.encoders import save_encoder
from .data import task_files as files
from .forked_worker import forked_workers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "data/README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def read_commands(page: Path):
    """Yield the ``fairseq-linformer`` commands on a page, with continued lines joined, and those in ``$(...)``."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?: {4})?(?:.*\| )?fairseq-linformer ([^;\n]*)", text, re.MULTILINE)
    for line in [*lines, *re.findall(r"\$\(fairseq-linformer\s([^)]*)\)", text)]:
        yield shlex.split(
            line.replace("...", "--source x --tokenizer y" if line.startswith("prepare pretraining") else ""),
            comments=True,
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page, capsys, monkeypatch):
    monkeypatch.setitem(parsers.SHARED["--tokenizer"], "type", str)  # it need not exist
    for words in read_commands(page):
        try:
            build_parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"{shlex.join(words)}: {capsys.readouterr().err}")


def test_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1500
    assert [line for line in text.splitlines() if len(line) > 160 and not line.startswith("|")] == []


def test_documentation_is_short():
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").glob("*.md")) <= 12000


# Smaller sizes, and sources without a network, for the commands of the README.
SMALLER = {
    "--max-update 200": "--max-update 2",
    "max_update=500": "max_update=2 checkpoint.save_interval_updates=2 lr_scheduler.warmup_updates=1",
    "sentence-transformers/all-MiniLM-L6-v2": "tiny-bert",
    "finetune sst-2": "finetune sst-2 --source SST-2",
}


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """A folder with the text of the demo, tiny files in place of the downloads, and the folders of a clone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    for name in ("configs", "fairseq_linformer"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = ["the", "old", "new", "cat", "dog", "hen", "box", "sees", "finds", "takes", "and", "in", "under", "a", "of"]
    draw = random.Random(1)
    documents = (" ".join(draw.choices(words, k=60)) for _ in range(4000))
    (tmp_path / "train.txt").write_text("\n\n".join(documents))
    (tmp_path / "reviews.txt").write_text("a fine film\na dull film\n")
    rows = [f"{draw.choice(words)} {kind}\t{kind}" for kind in ("json", "email") * 20]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "\n".join(dict.fromkeys(rows)) + "\n")
    save_encoder(tmp_path / "tiny-bert", "bert", False)
    (tmp_path / "SST-2").mkdir()
    files.write_tsv("sst-2", tmp_path / "SST-2")
    main(["prepare", "sentencepiece", "data/demo/spm", "--source", "train.txt", "--vocab-size", "60"])
    tokenizer = ["--tokenizer", "data/demo/spm/spm.model"]
    main(["prepare", "pretraining", "data/demo/data/text", "--source", "train.txt", *tokenizer])
    return tmp_path


def run_line(line: str) -> None:
    words = shlex.split(os.path.expandvars(line))
    if words[0] == "fairseq-linformer":
        with forked_workers():
            main(words[1:])
    else:
        module = words[0].replace("-", "_").replace("fairseq_", "fairseq_cli.", 1)
        subprocess.run([sys.executable, "-m", module, *words[1:]], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["conversion", pytest.param("recipes", marks=pytest.mark.nightly)])
def test_python_of_a_page(page, tmp_path, monkeypatch):
    """Each block stands alone, on exports of a tiny encoder."""
    monkeypatch.chdir(tmp_path)
    save_encoder(tmp_path / "bert", "bert", True)
    main(["convert", "bert", "linformer"])
    for words in (["hf-base"], ["embedder", "--pooling", "mean"], ["onnx-sst-2", "--onnx", "--int8"]):
        main(["export", "linformer/model.pt", *words])
    for block in blocks((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), "python"):
        exec(block, {})


@pytest.mark.slow
def test_readme(demo, capfd):
    """Run all commands and code of the README in order, then the Python code of docs/pretraining.md. The demo's
    classifier is one that was finetuned for an epoch."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
    commands = blocks(readme, "bash")
    for old, new in SMALLER.items():
        assert sum(old in block for block in commands) == 1, old
        commands = [block.replace(old, new) for block in commands]
    train, use, convert = commands
    for line in train.splitlines():
        run_line(line)
    assert "perplexity" in capfd.readouterr().out
    run_line("fairseq-linformer finetune rows.tsv checkpoints/tiny/checkpoint_last.pt --name demo --max-epoch 1")
    (demo / "data/demo/finetune").mkdir()  # fairseq-train writes nothing else
    shutil.copy(demo / "runs/demo/checkpoints/checkpoint_best.pt", demo / "data/demo/finetune")
    for line in [*use.splitlines(), *convert.splitlines()]:
        run_line(line)
    assert len((demo / "labels.jsonl").read_text().splitlines()) == 2
    capfd.readouterr()
    for block in blocks(readme, "python"):
        exec(block, {})
    assert "'label': 'json'" in (printed := capfd.readouterr().out) or "'label': 'email'" in printed
    _, _, section = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8").partition("## From Python\n")
    hub = textwrap.dedent("\n".join(line for line in section.splitlines() if line.startswith("    ")))
    assert "fill_mask" in hub and "extract_features" in hub
    exec(hub.replace("checkpoints/base", "checkpoints/tiny").replace("data/own", "data/demo/data/text"), {})
