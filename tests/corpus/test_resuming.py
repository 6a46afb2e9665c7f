"""Runs in parts, killed, rerun and rerun with changes: the same bytes, or a refusal."""

import json
import random
import resource
import shutil
import signal
import time

import pytest

from fairseq_linformer.corpus import pretraining, spm, workers
from fairseq_linformer.corpus.pretraining import Options, prepare
from fairseq_linformer.corpus.tokenizer import GPT2

from ..stock_text import write_gpt2
from .corpora import SMALL, made_up, write_text, write_rows, reference, read, hub, start, assert_same


@pytest.mark.slow
def test_parts_and_merge_are_one_run(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    options = Options((str(source),), str(gpt2), valid_share=0.3, chunk_mib=SMALL)
    prepare(tmp_path / "whole", options, workers=1)
    with pytest.raises(ValueError, match="chunk-000000"):
        prepare(tmp_path / "out", options, merge=True)
    for i in (3, 1):
        assert "when all parts are, run it with --merge" in prepare(tmp_path / "out", options, workers=1, part=(i, 3))
    with pytest.raises(ValueError, match="chunk-000001"):
        prepare(tmp_path / "out", options, merge=True)
    prepare(tmp_path / "out", options, workers=1, part=(2, 3))
    prepare(tmp_path / "out", options, merge=True)
    assert_same(tmp_path)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_ends_with_the_same_bytes(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(12000))
    whole = start(tmp_path, gpt2, "whole", chunk=0.01)
    assert whole.wait() == 0, whole.stderr.read()
    chance, killed = random.Random(0), []
    for _ in range(10):
        process = start(tmp_path, gpt2, "out", chunk=0.01)
        done = len(list((tmp_path / "out" / "work").glob("*.json")))
        wanted = done + chance.randint(0, 20)
        while process.poll() is None and len(list((tmp_path / "out" / "work").glob("*.json"))) <= wanted:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed.append(process.returncode == -signal.SIGKILL)
    assert all(killed)
    last = start(tmp_path, gpt2, "out", chunk=0.01)
    assert last.wait() == 0, last.stderr.read()
    assert_same(tmp_path)


@pytest.mark.slow
def test_killed_while_it_is_put_together(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(100))
    whole = start(tmp_path, gpt2, "whole")
    assert whole.wait() == 0, whole.stderr.read()
    for dies in ("in the middle of a shard", "before the manifest", "before tidying up", "not"):
        process = start(tmp_path, gpt2, "out", dies=dies)
        assert process.wait() == (0 if dies == "not" else -signal.SIGKILL), process.stderr.read()
    assert_same(tmp_path)


@pytest.mark.slow
def test_a_full_disk_loses_nothing(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(100))
    assert start(tmp_path, gpt2, "whole").wait() == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3100, before[1]))  # as the error of a full disk, at the first large file
    try:
        full = start(tmp_path, gpt2, "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = full.communicate()[1].splitlines()[-1]
    assert full.returncode == 1 and message.startswith("ValueError: ") and str(tmp_path / "out") in message
    assert not list((tmp_path / "out").glob("shard*/*")) and not list((tmp_path / "out" / "work").glob(".*"))
    assert start(tmp_path, gpt2, "out").wait() == 0
    assert_same(tmp_path)


def test_finished_it_is_not_done_again(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", made_up())
    options = Options((str(source),), str(gpt2), valid_share=0.3)
    first = prepare(tmp_path / "out", options, workers=1)
    monkeypatch.setattr(pretraining, "tokenise_all", None)
    monkeypatch.setattr(pretraining, "assemble", None)
    assert prepare(tmp_path / "out", options) == first
    with open(tmp_path / "out" / "shard0" / "train.bin", "ab") as file:
        file.truncate(10)
    with pytest.raises(ValueError, match="train.bin is "):
        prepare(tmp_path / "out", options)


def test_what_has_changed_is_noticed(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    options = dict(sources=(str(source),), gpt2=str(gpt2), valid_share=0.3)
    prepare(tmp_path / "out", Options(**options), workers=1, part=(1, 1))
    with pytest.raises(ValueError, match="unique_paragraphs False, not True"):
        prepare(tmp_path / "out", Options(**options, unique_paragraphs=True))
    other = write_gpt2(tmp_path / "other", merges=("h e",))
    with pytest.raises(ValueError, match="tokenizer.*files"):
        prepare(tmp_path / "out", Options(**{**options, "gpt2": str(other)}))
    (tmp_path / "spm.model").write_bytes(spm.train(iter(["hello low lower world"] * 20), 20, fold_case=False))
    with pytest.raises(ValueError, match="tokenizer 'gpt2', not 'sentencepiece'"):
        prepare(tmp_path / "out", Options(**{**options, "gpt2": None, "sentencepiece": str(tmp_path / "spm.model")}))
    source.write_text("something else\n")
    with pytest.raises(ValueError, match="text.txt has changed"):
        prepare(tmp_path / "out", Options(**options))
    source.unlink()
    with pytest.raises(ValueError, match="text.txt is gone"):
        prepare(tmp_path / "out", Options(**options))


def test_a_tokenizer_is_known_by_its_files_not_by_its_path(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", made_up())
    shutil.copytree(gpt2, tmp_path / "bpe")
    monkeypatch.chdir(tmp_path)
    first = prepare("out", Options((str(source),), "bpe", valid_share=0.3), workers=1, part=(1, 1))
    assert prepare("out", Options((str(source),), "./bpe", valid_share=0.3), part=(1, 1)) == first
    done = prepare("out", Options((str(source),), str(tmp_path / "bpe"), valid_share=0.3))
    assert prepare("out", Options((str(source),), str(gpt2), valid_share=0.3)) == done
    assert f"--gpt2 {tmp_path}/bpe " in json.loads((tmp_path / "out" / "manifest.json").read_text())["command"]


def test_what_comes_to_bear_late_can_be_changed_until_then(tmp_path, gpt2, monkeypatch):
    documents = made_up()
    source = write_text(tmp_path / "text.txt", documents)
    with pytest.raises(ValueError, match="valid, of 57.*--valid-share"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=1e-9), workers=1)
    monkeypatch.setattr(workers, "_tokenise_one", None)  # nothing is tokenised again
    prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=0.3, shards=2), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3, shards=2)
    with pytest.raises(ValueError, match="shards 2, not 3"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=0.3, shards=3), workers=1)


@pytest.mark.slow
def test_sources_that_grow_are_noticed(tmp_path, gpt2):
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "a.txt", made_up())
    hub(tmp_path, made_up())
    for i, source in enumerate((tmp_path / "in", f"hub:{tmp_path / 'hub'}")):
        prepare(tmp_path / f"out{i}", Options((str(source),), str(gpt2), valid_share=0.3), workers=1, part=(1, 2))
    write_text(tmp_path / "in" / "b.txt", made_up())
    write_rows(tmp_path / "hub" / "train-00001-of-00002.parquet", made_up())
    with pytest.raises(ValueError, match="b.txt is new"):
        prepare(tmp_path / "out0", Options((str(tmp_path / "in"),), str(gpt2), valid_share=0.3), workers=1)
    with pytest.raises(ValueError, match="00001-of-00002.parquet has changed"):
        prepare(tmp_path / "out1", Options((f"hub:{tmp_path / 'hub'}",), str(gpt2), valid_share=0.3), workers=1)


def test_what_others_leave_in_the_folder(tmp_path, gpt2):
    """Traces of a killed run are no other files, and files of others stay."""
    documents = made_up()
    options = Options((str(write_text(tmp_path / "text.txt", documents)),), str(gpt2), valid_share=0.3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".plan.json.0a1b2c3d").touch()
    prepare(tmp_path / "out", options, workers=1, part=(1, 1))
    (tmp_path / "out" / "shards-old").mkdir()
    (tmp_path / "out" / "shards-old" / "notes").write_text("dear")
    (tmp_path / "out" / "shards.md").write_text("dear")
    prepare(tmp_path / "out", options, merge=True)
    assert (tmp_path / "out" / "shards-old" / "notes").read_text() == (tmp_path / "out" / "shards.md").read_text() == "dear"
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    (tmp_path / "out" / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="plan.json"):
        prepare(tmp_path / "out", options)
