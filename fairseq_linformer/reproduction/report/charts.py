"""Charts before they are drawn: the same numbers make the picture and the table behind it."""

from dataclasses import dataclass, field

from .tables import Table

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        runs: a list of points per seed; the table has them all.
        thin: with open markers, for the paper's numbers or a line to compare with that of the same color.
        color: lines of one color belong together; None for a color of its own.
    """

    name: str
    runs: list[Points]
    thin: bool = False
    color: int | None = None


@dataclass(frozen=True)
class Chart:
    """Lines over one axis.

    Attributes:
        identifier: of the element in the page; unique there.
        x, y: of the axes, with units.
        levels: dotted horizontal lines to compare with.
        note: in the caption.
    """

    identifier: str
    title: str
    x: str
    y: str
    series: list[Series]
    levels: list[tuple[str, float]] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False
    note: str = ""

    @property
    def table(self) -> Table:
        """All numbers behind the lines: a row per x, a column per line and seed."""
        columns = [(_heading(s, i), dict(run)) for s in self.series for i, run in enumerate(s.runs)]
        positions = sorted({x for _, run in columns for x in run})
        rows = [[_number(x), *(_number(run.get(x)) for _, run in columns)] for x in positions]
        rows += [[name, _number(value), *[""] * (len(columns) - 1)] for name, value in self.levels]
        return Table([self.x, *(heading for heading, _ in columns)], rows, f"{self.title}: {self.y}")

    @property
    def description(self) -> str:
        """The alternative text."""
        names = ", ".join(s.name for s in self.series)
        return f"{self.title}. {self.y} over {self.x}: {names}."


@dataclass(frozen=True)
class Heat:
    """One number per row and column, such as layer and head.

    Attributes:
        identifier: as of ``Chart``.
        values: a list per row, of a number per column.
        quantity: of the numbers, with its unit.
        note: in the caption.
    """

    identifier: str
    title: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]
    quantity: str
    note: str = ""

    @property
    def table(self) -> Table:
        return Table(
            ["", *self.columns],
            [[row, *map(_number, values)] for row, values in zip(self.rows, self.values)],
            f"{self.title}: {self.quantity}",
        )

    @property
    def description(self) -> str:
        """The alternative text."""
        return f"{self.title}. {self.quantity}, {len(self.rows)} rows by {len(self.columns)} columns."


def _heading(series: Series, i: int) -> str:
    return series.name if len(series.runs) == 1 else f"{series.name}, run {i + 1}"


def _number(value: float | None) -> str:
    """Four significant digits; integers in full."""
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"
