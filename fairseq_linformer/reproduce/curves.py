"""Learning curves: read what fairseq wrote for TensorBoard, and draw it.

``fairseq-train --tensorboard-logdir D`` writes D/train_inner (averages since the last
``--log-interval``), D/train (once an epoch) and D/valid. Losses are in bits a predicted
token, so that 2 to their power is the perplexity that fairseq reports.
"""

from pathlib import Path
from typing import Dict, List, Tuple

Series = List[Tuple[int, float]]
"""Pairs (update, value), updates rising."""


def read(logdir, split: str, name: str) -> Series:
    """One curve of one run.

    A run that was killed and resumed has logged some updates twice, in two files; the later
    value is the one that its checkpoints continue from.

    Args:
        logdir: what ``--tensorboard-logdir`` was.
        split: ``train``, ``train_inner`` or ``valid``.
        name: as in fairseq's log without the prefix of the split, such as ``loss``, ``accuracy``.

    Raises:
        FileNotFoundError: no such curve was logged; the sentence names those that were.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = Path(logdir) / split
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist: nothing was logged for TensorBoard")
    # 0: keep all values; by default it keeps a sample of them.
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    if name not in names:
        raise FileNotFoundError(f"{folder} holds no curve {name!r}, only: {', '.join(sorted(names))}")
    latest: Dict[int, float] = {}
    for event in sorted(events.Scalars(name), key=lambda event: event.wall_time):
        latest[event.step] = event.value
    return sorted(latest.items())


def new_figure():
    """An empty figure for two plots side by side, made without pyplot, which would look for a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw(
    path,
    train_loss: Series,
    valid_loss: Series,
    context_free_bits: float,
    accuracy: Series,
    majority_percent: float,
    title: str,
) -> None:
    """Write a PNG: the losses of pretraining, and beside them the accuracy of finetuning.

    Curves differ in line and marker, not in colour alone, and are named where they end.

    Args:
        path: file to write.
        train_loss: bits a predicted token, of the training split.
        valid_loss: the same of the validation split.
        context_free_bits: what a model without context can reach; a dashed line.
        accuracy: percent, of the validation split of the labelled task.
        majority_percent: share of the most frequent class there; a dashed line.
        title: what was trained.

    Raises:
        ValueError: a curve is empty.
    """
    for what, series in (("train loss", train_loss), ("valid loss", valid_loss), ("accuracy", accuracy)):
        if not series:
            raise ValueError(f"the curve of the {what} is empty")
    figure = new_figure()
    figure.suptitle(title, fontsize=11)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))

    left.plot(*zip(*train_loss), color="0.65", linewidth=1.2, label="train")
    left.plot(*zip(*valid_loss), color="#0b4f8a", linewidth=1.8, marker="o", markersize=4, label="valid")
    _level(left, context_free_bits, f"no context: {context_free_bits:.2f} bits")
    left.set(title="Pretraining (masked LM)", xlabel="updates", ylabel="loss, bits a predicted token")
    left.annotate(
        f"{valid_loss[-1][1]:.2f}", valid_loss[-1], xytext=(4, 7), textcoords="offset points", ha="right", fontsize=9
    )
    left.legend(frameon=False, loc="upper right")

    right.plot(*zip(*accuracy), color="#b3420a", linewidth=1.8, marker="s", markersize=4)
    _level(right, majority_percent, f"most frequent class: {majority_percent:.0f} %")
    best = max(accuracy, key=lambda point: point[1])
    right.annotate(
        f"best {best[1]:.0f} %", best, xytext=(4, 7), textcoords="offset points", ha="right", fontsize=9
    )
    right.set(
        title="Finetuning (valid)", xlabel="updates", ylabel="accuracy, %", ylim=(0, 100)
    )
    for axes in (left, right):
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.title.set_fontsize(10)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def _level(axes, value: float, name: str) -> None:
    """A dashed line across, its name above it at the right, where learning curves have left it."""
    axes.axhline(value, color="black", linestyle=(0, (5, 3)), linewidth=1.2)
    axes.annotate(
        name,
        (0.99, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=9,
    )
