"""``fairseq-linformer benchmark``: its table, its file, and what it rejects."""

import json
import shlex

import pytest

from fairseq_linformer.cli import main

SMALL = "--encoder-layers 1 --encoder-embed-dim 64 --rounds 1 --projected-dim 8"


@pytest.fixture
def run(tmp_path, capsys):
    """Runs ``benchmark WORDS`` with OUT for a file; returns what it prints."""

    def call(words: str) -> str:
        main(["benchmark", *shlex.split(words.replace("OUT", str(tmp_path / "out.json")))])
        return capsys.readouterr().out

    return call


@pytest.mark.slow
def test_inference(run, tmp_path):
    models = "linformer transformer-sdpa bigbird"
    printed = run(f"inference --models {models} --lengths 32 64 --local-window 0 4 --max-tokens 64 {SMALL} --out OUT")
    lines = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    heads = ["| model", "n", "k", "W", "microseconds per token", "times as fast as transformer-sdpa", "bytes"]
    assert lines[0] == [*heads, "bytes over those of transformer-sdpa |"]
    assert [line[:4] for line in lines[2:5]] == [
        ["| linformer", "32", "8", ""],
        ["| linformer", "32", "8", "4"],
        ["| transformer-sdpa", "32", "", ""],
    ]
    assert len(lines) == 8 and printed.count("not measured: bigbird, n = ") == 2
    stored = json.loads((tmp_path / "out.json").read_text())
    assert [each["settings"]["cases"][0] for each in stored] == [
        ["linformer", 32, 8, 0, None],
        ["linformer", 64, 8, 0, None],
    ]


@pytest.mark.slow
def test_training(run):
    printed = run(f"training --models ours roberta --lengths 8 --max-positions 32 --max-tokens 16 {SMALL}")
    assert (
        "| phase | model | n | k | tokens per second | times as fast as roberta | bytes | bytes over those" in printed
    )
    assert "| finetuning | ours | 8 | 8 |" in printed and "| finetuning | roberta | 8 |  |" in printed


@pytest.mark.slow
def test_processes(run, pieces, glue, tmp_path):
    data, tokenizer = str(tmp_path / "sst-2"), str(pieces / "sentencepiece.bpe.model")
    main(["prepare", "sst-2", data, "--source", str(glue), "--tokenizer", tokenizer, "--max-positions", "32"])
    printed = run(f"processes --models ours --lengths 32 --max-tokens 64 --data {data} {SMALL}")
    assert "| tokens per second | MiB |" in printed and "| ours | 32 | 8 |" in printed
