"""Parsing of fairseq's JSON log."""

from fairseq_linformer.fairseq_log import parse_line, read_split

LINE = '2026-01-01 00:00:00 | INFO | %s | {"epoch": 1, "loss": "7.25", "lr": "1e-05", "valid_best": null}'


def test_parse_line():
    assert parse_line(LINE % "train_inner" + "\n") == ("train_inner", {"epoch": 1, "loss": 7.25, "lr": 1e-5})
    for other in (
        "",
        "2026 | INFO | fairseq.trainer | begin training epoch 1",
        LINE[:-9] % "valid",
        LINE % "valid" + " more",
        '2026 | INFO | valid | {"epoch": "one"}',
        "2026 | INFO | valid | {[1]}",
    ):
        assert parse_line(other) is None


def test_read_split():
    lines = [LINE % "train_inner", "other", LINE % "valid", LINE[:-1] % "valid", LINE.replace("7.25", "7") % "valid"]
    assert [found["loss"] for found in read_split(lines, "valid")] == [7.25, 7]
    assert list(read_split(lines, "test")) == []
