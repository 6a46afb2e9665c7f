"""The number of parameters of each variant at base size, as a table in the README.

    python -m fairseq_linformer.reproduce.parameters [README.md]

Prints the table, or writes it between the two marks in a file.
"""

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from fairseq.models.roberta import RobertaModel
from torch._subclasses import FakeTensorMode

from ..files import write_lines
from ..models import LinformerRobertaModel
from ..models.bare_task import BareTask
from ..modules.projection import LearnedProjection, count_matrices
from ..planning.configs import VOCABULARY

BEGIN, END = "<!-- parameters begin -->", "<!-- parameters end -->"
N = 512
VARIANTS = [
    *(("linear", sharing, "256") for sharing in ("none", "headwise", "key-value", "layerwise")),
    ("linear", "headwise", "256x4,128x8"),
    ("linear", "none", "256/256/256/256/128/128/128/128/64/64/64/64"),
    *(("conv", sharing, "256") for sharing in ("none", "headwise", "key-value", "layerwise")),
    ("mean-pool", "headwise", "256"),
    ("max-pool", "headwise", "256"),
    ("random", "headwise", "256"),
]
"""Projection, sharing, k."""


def count(projection: Optional[str] = None, sharing: str = "headwise", k: str = "256") -> Tuple[int, int, int]:
    """Matrices or kernels, parameters in them that learn, and all parameters that learn; of RoBERTa
    without a projection."""
    with FakeTensorMode():  # shapes without memory
        if projection is None:
            model = RobertaModel.build_model(Namespace(arch="roberta_base", max_positions=N), BareTask(VOCABULARY, N))
        else:
            args = Namespace(arch="linformer_roberta_base", projection=projection, sharing=sharing, projected_dim=k)
            model = LinformerRobertaModel.build_model(args, BareTask(VOCABULARY, N))
        projections = [p for m in model.modules() if isinstance(m, LearnedProjection) for p in m.parameters()]
        learn = [p for p in model.parameters() if p.requires_grad]
        return count_matrices(model), sum(p.numel() for p in projections if p.requires_grad), sum(p.numel() for p in learn)


def table() -> Iterator[str]:
    """Lines of Markdown."""
    yield "| projection | sharing | k | matrices or kernels | parameters in them | parameters in all |"
    yield "|---|---|---|---|---|---|"
    yield f"| none: RoBERTa | | | 0 | 0 | {count()[2]:,} |"
    for projection, sharing, k in VARIANTS:
        matrices, inside, total = count(projection, sharing, k)
        said = sharing if projection not in ("mean-pool", "max-pool") else ""
        yield f"| `{projection}` | {said} | {k} | {matrices} | {inside:,} | {total:,} |"


def written(text: str, lines: List[str]) -> str:
    """``text`` with ``lines`` between its two marks.

    Raises:
        ValueError: it has not both marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"there are no marks {BEGIN} and {END} to write the table between")
    return "\n".join([before + begin, *lines, end + after])


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="with the two marks; the table is printed if there is none")
    path = parser.parse_args(arguments).file
    try:
        text = path and path.read_text(encoding="utf-8")
        if text is None:
            print("\n".join(table()))
        else:
            write_lines(path, written(text, list(table())).rstrip("\n").split("\n"))
    except (OSError, ValueError) as error:
        sys.exit(f"parameters: {error}")


if __name__ == "__main__":
    main()
