"""Runs in parts, killed and resumed give the same bytes; runs with changed options or sources are rejected."""

import json
import random
import resource
import shutil
import signal
import time

import pytest

from fairseq_linformer.data import pretraining, sentencepiece_model, workers
from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus
from fairseq_linformer.data.tokenizer import GPT2

from ..fairseq_preprocessing import write_gpt2
from .corpora import SMALL, assert_same, build_documents, hub, read, reference, start, write_rows, write_text


@pytest.mark.slow
def test_parts_and_merge_equal_a_single_run(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", build_documents())
    options = CorpusOptions((str(source),), str(gpt2), valid_share=0.3, chunk_mib=SMALL)
    prepare_corpus(tmp_path / "whole", options, workers=1)
    with pytest.raises(ValueError, match="chunk-000000"):
        prepare_corpus(tmp_path / "out", options, merge=True)
    for i in (3, 1):
        assert "run with --merge" in prepare_corpus(tmp_path / "out", options, workers=1, part=(i, 3))
    with pytest.raises(ValueError, match="chunk-000001"):
        prepare_corpus(tmp_path / "out", options, merge=True)
    prepare_corpus(tmp_path / "out", options, workers=1, part=(2, 3))
    prepare_corpus(tmp_path / "out", options, merge=True)
    assert_same(tmp_path)


def test_failing_part_keeps_the_files_of_running_parts(tmp_path):
    """Parts that start together all see a folder without a plan."""
    out, unstarted = tmp_path / "out", pretraining._remove_unstarted
    out.mkdir()
    with pytest.raises(ValueError, match="no source"), pretraining._lock(out / ".lock", shared=True), unstarted(out):
        (out / "plan.json").write_text("{}")  # while another part has the lock
        raise ValueError("no source")
    assert (out / "plan.json").exists()
    (out / "plan.json").unlink()
    with pytest.raises(ValueError, match="no source"), unstarted(out):
        (out / "plan.json").write_text("{}")
        raise ValueError("no source")
    assert not any(out.iterdir())


@pytest.mark.slow
def test_killed_runs_resume_to_the_same_bytes(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", build_documents(12000))
    whole = start(tmp_path, gpt2, "whole", chunk=0.01)
    assert whole.wait() == 0, whole.stderr.read()
    total = len(json.loads((tmp_path / "whole" / "plan.json").read_text())["chunks"])
    # Each run is killed in its share of the chunks, unless it ends before this process notices.
    rng, kills = random.Random(0), 0
    for share in range(1, 11):
        process = start(tmp_path, gpt2, "out", chunk=0.01)
        target = rng.randint(total * (share - 1), total * share) // 11
        while process.poll() is None and len(list((tmp_path / "out" / "work").glob("*.json"))) < target:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.wait()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 3
    last = start(tmp_path, gpt2, "out", chunk=0.01)
    assert last.wait() == 0, last.stderr.read()
    assert_same(tmp_path)


@pytest.mark.slow
def test_killed_assembly_resumes_to_the_same_bytes(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", build_documents(100))
    whole = start(tmp_path, gpt2, "whole")
    assert whole.wait() == 0, whole.stderr.read()
    for dies in ("in the middle of a shard", "before the manifest", "before tidying up", "not"):
        process = start(tmp_path, gpt2, "out", dies=dies)
        assert process.wait() == (0 if dies == "not" else -signal.SIGKILL), process.stderr.read()
    assert_same(tmp_path)


@pytest.mark.slow
def test_full_disk_keeps_finished_chunks(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", build_documents(100))
    assert start(tmp_path, gpt2, "whole").wait() == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3100, before[1]))  # simulates a full disk, at the first large file
    try:
        full = start(tmp_path, gpt2, "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = full.communicate()[1].splitlines()[-1]
    assert full.returncode == 1 and message.startswith("ValueError: ") and str(tmp_path / "out") in message
    assert not list((tmp_path / "out").glob("shard*/*")) and not list((tmp_path / "out" / "work").glob(".*"))
    assert start(tmp_path, gpt2, "out").wait() == 0
    assert_same(tmp_path)


def test_finished_corpus_is_not_prepared_again(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", build_documents())
    options = CorpusOptions((str(source),), str(gpt2), valid_share=0.3)
    first = prepare_corpus(tmp_path / "out", options, workers=1)
    monkeypatch.setattr(pretraining, "tokenize_chunks", None)
    monkeypatch.setattr(pretraining, "assemble", None)
    assert prepare_corpus(tmp_path / "out", options) == first
    with open(tmp_path / "out" / "shard0" / "train.bin", "ab") as file:
        file.truncate(10)
    with pytest.raises(ValueError, match="train.bin was .*truncated"):
        prepare_corpus(tmp_path / "out", options)


def test_changed_options_and_sources_are_rejected(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", build_documents())
    options = dict(sources=(str(source),), gpt2=str(gpt2), valid_share=0.3)
    prepare_corpus(tmp_path / "out", CorpusOptions(**options), workers=1, part=(1, 1))
    with pytest.raises(ValueError, match="unique_paragraphs must be False, .*got True"):
        prepare_corpus(tmp_path / "out", CorpusOptions(**options, unique_paragraphs=True))
    other = write_gpt2(tmp_path / "other", merges=("h e",))
    with pytest.raises(ValueError, match="tokenizer.*files"):
        prepare_corpus(tmp_path / "out", CorpusOptions(**{**options, "gpt2": str(other)}))
    (tmp_path / "spm.model").write_bytes(
        sentencepiece_model.train_model(iter(["hello low lower world"] * 20), 20, fold_case=False)
    )
    with pytest.raises(ValueError, match="tokenizer must be 'gpt2', .*got 'sentencepiece'"):
        prepare_corpus(
            tmp_path / "out", CorpusOptions(**{**options, "gpt2": None, "sentencepiece": str(tmp_path / "spm.model")})
        )
    source.write_text("something else\n")
    with pytest.raises(ValueError, match="text.txt changed"):
        prepare_corpus(tmp_path / "out", CorpusOptions(**options))
    source.unlink()
    with pytest.raises(ValueError, match="text.txt .*deleted"):
        prepare_corpus(tmp_path / "out", CorpusOptions(**options))


def test_tokenizer_is_compared_by_content(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", build_documents())
    shutil.copytree(gpt2, tmp_path / "bpe")
    monkeypatch.chdir(tmp_path)
    first = prepare_corpus("out", CorpusOptions((str(source),), "bpe", valid_share=0.3), workers=1, part=(1, 1))
    assert prepare_corpus("out", CorpusOptions((str(source),), "./bpe", valid_share=0.3), part=(1, 1)) == first
    done = prepare_corpus("out", CorpusOptions((str(source),), str(tmp_path / "bpe"), valid_share=0.3))
    assert prepare_corpus("out", CorpusOptions((str(source),), str(gpt2), valid_share=0.3)) == done
    assert f"--gpt2-bpe {tmp_path}/bpe " in json.loads((tmp_path / "out" / "manifest.json").read_text())["command"]


def test_late_options_can_change_before_assembly(tmp_path, gpt2, monkeypatch):
    documents = build_documents()
    source = write_text(tmp_path / "text.txt", documents)
    with pytest.raises(ValueError, match="valid .*57 .*--valid-share"):
        prepare_corpus(tmp_path / "out", CorpusOptions((str(source),), str(gpt2), valid_share=1e-9), workers=1)
    monkeypatch.setattr(workers, "_tokenize_one", None)  # nothing is tokenized again
    prepare_corpus(tmp_path / "out", CorpusOptions((str(source),), str(gpt2), valid_share=0.3, shards=2), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3, shards=2)
    with pytest.raises(ValueError, match="shards must be 2, .*got 3"):
        prepare_corpus(tmp_path / "out", CorpusOptions((str(source),), str(gpt2), valid_share=0.3, shards=3), workers=1)


@pytest.mark.slow
def test_added_source_files_are_rejected(tmp_path, gpt2):
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "a.txt", build_documents())
    hub(tmp_path, build_documents())
    for i, source in enumerate((tmp_path / "in", f"hub:{tmp_path / 'hub'}")):
        prepare_corpus(
            tmp_path / f"out{i}", CorpusOptions((str(source),), str(gpt2), valid_share=0.3), workers=1, part=(1, 2)
        )
    write_text(tmp_path / "in" / "b.txt", build_documents())
    write_rows(tmp_path / "hub" / "train-00001-of-00002.parquet", build_documents())
    with pytest.raises(ValueError, match="b.txt was added"):
        prepare_corpus(tmp_path / "out0", CorpusOptions((str(tmp_path / "in"),), str(gpt2), valid_share=0.3), workers=1)
    with pytest.raises(ValueError, match="00001-of-00002.parquet changed"):
        prepare_corpus(
            tmp_path / "out1", CorpusOptions((f"hub:{tmp_path / 'hub'}",), str(gpt2), valid_share=0.3), workers=1
        )


def test_unrelated_and_temporary_files_in_the_output_folder(tmp_path, gpt2):
    """Temporary files of a killed run are accepted, and unrelated files are kept."""
    documents = build_documents()
    options = CorpusOptions((str(write_text(tmp_path / "text.txt", documents)),), str(gpt2), valid_share=0.3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".plan.json.0a1b2c3d").touch()
    prepare_corpus(tmp_path / "out", options, workers=1, part=(1, 1))
    (tmp_path / "out" / "shards-old").mkdir()
    (tmp_path / "out" / "shards-old" / "notes").write_text("dear")
    (tmp_path / "out" / "shards.md").write_text("dear")
    prepare_corpus(tmp_path / "out", options, merge=True)
    assert (
        (tmp_path / "out" / "shards-old" / "notes").read_text()
        == (tmp_path / "out" / "shards.md").read_text()
        == "dear"
    )
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    (tmp_path / "out" / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="plan.json"):
        prepare_corpus(tmp_path / "out", options)
