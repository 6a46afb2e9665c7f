"""The README's quick start runs; commands in the documentation have options that exist; pages open with a command."""

import random
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fairseq_linformer.cli import build_parser, main

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
    lines = re.findall(r"^(?: {4})?(?:.*\| )?fairseq-linformer (.*)$", text, re.MULTILINE)
    for line in [*lines, *re.findall(r"\$\(fairseq-linformer\s([^)]*)\)", text)]:
        yield shlex.split(
            line.replace("...", "--source x --tokenizer y" if line.startswith("prepare pretraining") else ""),
            comments=True,
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page, capsys):
    for words in read_commands(page):
        try:
            options, more = build_parser().parse_known_args(words)
        except SystemExit:
            pytest.fail(f"{shlex.join(words)}: {capsys.readouterr().err}")
        for_sbatch = words[0] == "submit" or (words[0] == "finetune" and options.slurm)  # which takes --OPTION=VALUE
        assert not [word for word in more if word.startswith("-") and not (for_sbatch and "=" in word)], words


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_pages_open_with_a_command(page):
    first = re.search(r"^# .*\n\n {4}(.*)", page.read_text(encoding="utf-8"))
    assert first, page


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 180


# Smaller sizes, and sources without a network, for the commands of the quick start.
SMALLER = {
    "sentence-transformers/all-MiniLM-L6-v2 minilm-linformer --max-positions 128": "tiny-bert minilm-linformer "
    "--max-positions 32",
    "--name sst-2-minilm --lr": "--name sst-2-minilm --source SST-2 --lr",
    "--vocab-size 8000": "--vocab-size 60",
    "+run=tiny": "+run=tiny optimization.max_update=2 checkpoint.save_interval_updates=2 lr_scheduler.warmup_updates=1",
    "--source hub": "--source SST-2 --max-epoch 1",
    "--from-scratch": "--from-scratch --max-epoch 1",
    "--grid": "--grid --lr 1e-5 --seed 1 --max-epoch 1",
}


@pytest.mark.slow
def test_quick_start(tmp_path, monkeypatch, capfd):
    """Run all commands of the README's quick start in order, then the Python code of the README and of
    docs/pretraining.md, in a folder with text and a task."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    for name in ("configs", "fairseq_linformer"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = ["the", "old", "new", "cat", "dog", "hen", "box", "sees", "finds", "takes", "and", "in", "under", "a", "of"]
    draw = random.Random(1)
    documents = (" ".join(draw.choices(words, k=60)) for _ in range(4000))
    (tmp_path / "train.txt").write_text("\n\n".join(documents))
    (tmp_path / "reviews.txt").write_text("a fine film\na dull film\n")
    save_encoder(tmp_path / "tiny-bert", "bert", False)
    (tmp_path / "SST-2").mkdir()
    files.write_tsv("sst-2", tmp_path / "SST-2")
    lines = [line for block in blocks(readme, "bash") for line in block.splitlines()]
    assert len(lines) == 11
    for old, new in SMALLER.items():
        assert sum(old in line for line in lines) == 1, old
        lines = [line.replace(old, new) for line in lines]
    for line in lines:
        words = shlex.split(line.replace("$PWD", str(tmp_path)))
        if words[0] == "fairseq-linformer":
            with forked_workers():
                main(words[1:])
        else:
            module = words[0].replace("-", "_").replace("fairseq_", "fairseq_cli.", 1)
            subprocess.run([sys.executable, "-m", module, *words[1:]], check=True)
    assert "perplexity" in capfd.readouterr().out
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 2
    (tmp_path / "checkpoints/tiny/sentencepiece.bpe.model").symlink_to(tmp_path / "data/spm/spm.model")
    (modules,) = blocks(readme, "python")
    assert modules.count("4096") == 4
    exec(modules.replace("4096", "512"), {})
    _, _, section = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8").partition("## From Python\n")
    hub = textwrap.dedent("\n".join(line for line in section.splitlines() if line.startswith("    ")))
    assert "fill_mask" in hub and "extract_features" in hub
    exec(hub.replace("checkpoints/base", "checkpoints/tiny"), {})
