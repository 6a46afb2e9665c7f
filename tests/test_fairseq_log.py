"""fairseq's JSON lines."""

from fairseq_linformer.fairseq_log import every, numbers

LINE = '2026-01-01 00:00:00 | INFO | %s | {"epoch": 1, "loss": "7.25", "lr": "1e-05", "valid_best": null}'


def test_a_line():
    assert numbers(LINE % "train_inner" + "\n") == ("train_inner", {"epoch": 1, "loss": 7.25, "lr": 1e-5})
    for other in ("", "2026 | INFO | fairseq.trainer | begin training epoch 1", LINE[:-9] % "valid", LINE % "valid" + " more",
                  '2026 | INFO | valid | {"epoch": "one"}', "2026 | INFO | valid | {[1]}"):  # fmt: skip
        assert numbers(other) is None


def test_lines_of_a_split():
    lines = [LINE % "train_inner", "other", LINE % "valid", LINE[:-1] % "valid", LINE.replace("7.25", "7") % "valid"]
    assert [found["loss"] for found in every(lines, "valid")] == [7.25, 7]
    assert list(every(lines, "test")) == []
