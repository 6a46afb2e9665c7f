"""The table of a benchmark, as the command prints it and the page of ``speed`` has it."""

from fairseq_linformer.benchmark.rows import Row
from fairseq_linformer.reproduction.benchmarks import tabulate


def test_a_line_per_model_and_a_column_per_quantity():
    ours, other = {"model": "ours", "n": 1024, "k": 8}, {"model": "roberta", "n": 1024}
    table = tabulate(
        "T",
        [
            Row(metric="bytes", value=3, unit="bytes", **ours),
            Row(metric="bytes", value=4, unit="bytes", **other),
            Row(metric="time_ratio", value=2.0, low=1.5, high=2.5, unit="ratio of times", **ours, baseline="roberta"),
            Row(metric="bytes_share", value=0.75, unit="ratio of bytes", **ours, baseline="roberta"),
            Row(metric="relative_time", value=1.1, unit="ratio of times", **ours, baseline="W = 0"),
        ],
    )
    head = ["model", "n", "k", "bytes", "times as fast as roberta", "bytes over those of roberta"]
    assert table.title == "T" and table.head == head  # neither a phase nor a window
    assert table.rows == [["ours", "1,024", "8", "3", "2 [1.5, 2.5]", "0.75"], ["roberta", "1,024", "", "4", "", ""]]
