"""Curves: what TensorBoard's own writer wrote is read back, and drawn."""

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fairseq_linformer.reproduce import curves


def log(folder, name, points, start):
    """One run's event file: points (step, value), a second apart from ``start``."""
    writer = EventFileWriter(str(folder), filename_suffix=f".{start}")
    for i, (step, value) in enumerate(points):
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=start + i, step=step, summary=summary))
    writer.close()


def test_read_gives_steps_and_values_in_order(tmp_path):
    log(tmp_path / "valid", "loss", [(10, 8.5), (20, 7.25), (30, 7.0)], 1000)
    assert curves.read(tmp_path, "valid", "loss") == [(10, 8.5), (20, 7.25), (30, 7.0)]


def test_a_resumed_run_continues_from_its_checkpoint(tmp_path):
    # Killed after update 30; resumed from the checkpoint of update 20.
    log(tmp_path / "valid", "loss", [(10, 8.0), (20, 7.0), (30, 6.5)], 1000)
    log(tmp_path / "valid", "loss", [(30, 6.25), (40, 6.0)], 2000)
    assert curves.read(tmp_path, "valid", "loss") == [(10, 8.0), (20, 7.0), (30, 6.25), (40, 6.0)]


def test_long_runs_are_not_sampled(tmp_path):
    points = [(i, float(i)) for i in range(12_000)]
    log(tmp_path / "train_inner", "loss", points, 1000)
    assert curves.read(tmp_path, "train_inner", "loss") == points


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="valid does not exist"):
        curves.read(tmp_path, "valid", "loss")
    log(tmp_path / "valid", "loss", [(10, 8.0)], 1000)
    with pytest.raises(FileNotFoundError, match="no curve 'accuracy', only: loss"):
        curves.read(tmp_path, "valid", "accuracy")


def figure(path, accuracy):
    curves.draw(
        path,
        train_loss=[(50, 9.0), (100, 8.0)],
        valid_loss=[(100, 8.25)],
        context_free_bits=7.7,
        accuracy=accuracy,
        majority_percent=28.0,
        title="n = 32, k = 16",
    )


def test_draw_writes_a_png(tmp_path):
    figure(tmp_path / "new" / "curves.png", [(10, 30.0), (20, 60.0)])
    content = (tmp_path / "new" / "curves.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (1200, 504)


def test_an_empty_curve_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the curve of the accuracy is empty"):
        figure(tmp_path / "curves.png", [])
    assert not (tmp_path / "curves.png").exists()
