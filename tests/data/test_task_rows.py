"""Unusable rows are skipped, counted and located; too many of them are an error."""

import tarfile

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.data import task_manifest as manifests
from fairseq_linformer.data.prepare_task import prepare_task
from fairseq_linformer.data.streams import MAX_BYTES
from fairseq_linformer.data.tasks import TASKS

from . import task_files as files
from .command_errors import error_of

BAD_ROWS = {
    b"too\tmany\t1": "wrong number of columns: train.tsv:{}: 3 instead of 2",
    b"too few": "wrong number of columns: train.tsv:{}: 1 instead of 2",
    b"": "wrong number of columns: train.tsv:{}: 1 instead of 2",
    b"latin \xe4\t1": "not UTF-8: train.tsv:{}: byte 7 is 0xe4",
    b"nul \0\t1": "a NUL byte: train.tsv:{}",
    b" \xe2\x80\x83 \t1": "empty text: train.tsv:{}",
    b"label\t2": "unknown label: train.tsv:{}: '2'",
    b"label\t": "unknown label: train.tsv:{}: ''",
    b"x" * MAX_BYTES + b"\t1": f"longer than {MAX_BYTES:,} bytes: train.tsv:{{}}",
    b"x" * (5 * MAX_BYTES) + b"\t1": f"longer than {MAX_BYTES:,} bytes: train.tsv:{{}}",
    b"carriage \r return\t1": None,
    b"white" + b" " * (MAX_BYTES - 10) + b"x\t1": None,
    b"x" * (MAX_BYTES - 2) + b"\t1": None,
    b'"a quote\t1': None,
}


@pytest.mark.parametrize("line, message", BAD_ROWS.items(), ids=range(len(BAD_ROWS)))
def test_unusable_row_is_skipped_and_located(line, message, bpe, tmp_path):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    whole = files.tsv("sst-2", "train").splitlines(keepends=True)
    (source / "train.tsv").write_bytes(b"".join(whole[:3]) + line + b"\n" + b"".join(whole[3:]))
    manifest = prepare_task(TASKS["sst-2"], tmp_path / "out", source, bpe, max_skipped=0.2)
    counts = manifest["splits"]["train"]
    assert counts["read"] == 6 and counts["written"] == (6 if message is None else 5)
    lines = [
        text for text in manifests.summarize_task(TASKS["sst-2"], "out", manifest).splitlines() if text.startswith("  ")
    ]
    assert lines == ([] if message is None else ["  1 skipped, " + message.format(4)])
    if message is not None:
        prepare_task(TASKS["sst-2"], tmp_path / "without", files.write_tsv("sst-2", tmp_path / "good"), bpe)
        assert files.bins(tmp_path / "out") == files.bins(tmp_path / "without")


def test_too_many_unusable_rows_are_rejected(capsys, gpt2, tmp_path):
    source = files.write_tsv("qqp", tmp_path / "QQP")
    with open(source / "dev.tsv", "ab") as file:
        file.write(b"9\t1\t2\tlow\tlow\t3\n9\t1\t2\tlow\t1\n")
    message = error_of(capsys, gpt2, source, task="qqp")
    for part in ("QQP", "rows of valid", "2 of 5", "0.01", "dev.tsv:5: unknown label, '3'"):
        assert part in message
    assert "2 of 5" in error_of(capsys, gpt2, source, "--max-skipped", "0.39", task="qqp")
    main(
        [
            "prepare",
            "qqp",
            str(tmp_path / "out"),
            "--source",
            str(source),
            "--gpt2-bpe",
            str(gpt2),
            "--max-skipped",
            "0.4",
        ]
    )
    assert "valid: 3 rows, 2 skipped" in capsys.readouterr().out


def test_unusable_reviews_are_skipped(bpe, capsys, gpt2, tmp_path):
    folder = files.write_reviews(tmp_path)
    for name, content in {
        "20_1.txt": b"",
        "21_1.txt": b"\xff",
        "22_1.txt": b"\0",
        "23_1.txt": b"x" * 2_000_000,
        "urls.txt": b"low",
    }.items():
        (folder / "train" / "neg" / name).write_bytes(content)
    extra = []
    for name in ("20_1.txt", "21_1.txt", "22_1.txt", "23_1.txt", "urls.txt"):
        content = (folder / "train" / "neg" / name).read_bytes()
        info = tarfile.TarInfo(f"aclImdb/train/neg/{name}")
        info.size = len(content)
        extra.append((info, content))
    skipped = []
    for source in (folder, files.write_tar(tmp_path / "x.tar.gz", extra)):
        out = tmp_path / f"out{len(skipped)}"
        counts = prepare_task(TASKS["imdb"], out, source, bpe, max_skipped=0.6)["splits"]["train"]
        assert counts["written"] == 5
        skipped.append(
            {
                reason: [location.removeprefix("aclImdb/") for location in skips["examples"]]
                for reason, skips in counts["skipped"].items()
            }
        )
    assert (
        skipped[0]
        == skipped[1]
        == {
            "a NUL byte": ["train/neg/22_1.txt"],
            "empty text": ["train/neg/20_1.txt"],
            f"longer than {MAX_BYTES:,} bytes": ["train/neg/23_1.txt"],
            "not UTF-8": ["train/neg/21_1.txt: byte 1 is 0xff"],
            "not named NUMBER_RATING.txt": ["train/neg/urls.txt"],
        }
    )
    for path in (folder / "test" / "pos").iterdir():
        path.unlink()
    (folder / "test" / "pos").rmdir()
    assert "aclImdb/test/pos does not exist" in error_of(capsys, gpt2, folder, task="imdb")


def test_unusable_parquet_rows_are_skipped(bpe, tmp_path):
    def change(columns):
        if len(columns["label"]) == 5:
            columns["sentence"][:4] = [None, "nul \0", " ", "x" * 2_000_000]
            columns["label"][4] = -1
            columns["sentence"] += ["low", "lower"]
            columns["label"] += [0, 1]
            columns["idx"] += [5, 6]
        return columns

    source = files.write_parquet("sst-2", tmp_path / "hub", change)
    counts = prepare_task(TASKS["sst-2"], tmp_path / "out", source, bpe, max_skipped=0.8)["splits"]["train"]
    assert {reason: skips["examples"] for reason, skips in counts["skipped"].items()} == {
        "a NUL byte": ["sst2/train:2"],
        "empty text": ["sst2/train:1", "sst2/train:3"],
        f"longer than {MAX_BYTES:,} bytes": ["sst2/train:4"],
        "unknown label": ["sst2/train:5: '-1'"],
    }
    assert counts["classes"] == {"negative": 1, "positive": 1}


def test_invalid_scores_are_skipped(bpe, tmp_path):
    source = files.write_tsv("sts-b", tmp_path / "STS-B")
    with open(source / "train.tsv", "a") as file:
        for label in ("5.1", "-0.1", "nan", "inf", "", "high"):
            file.write(f"9\tg\tf\t2012\t9\tn\tn\ta\tb\t{label}\n")
    counts = prepare_task(TASKS["sts-b"], tmp_path / "out", source, bpe, max_skipped=0.6)["splits"]["train"]
    assert counts["written"] == 5 and counts["skipped"]["unknown label"]["rows"] == 6
    assert counts["skipped"]["unknown label"]["examples"] == [
        "train.tsv:7: '5.1'",
        "train.tsv:8: '-0.1'",
        "train.tsv:9: 'nan'",
    ]
