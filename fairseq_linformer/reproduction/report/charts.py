"""A chart before it is drawn: the same numbers make the picture and the table behind it."""

from dataclasses import dataclass, field

from .tables import Table

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One line."""

    name: str
    runs: list[Points]
    """A list of points for each seed; the table gives them all."""
    thin: bool = False
    """With open markers: the paper's numbers, or what the line of the same color is to be compared with."""
    color: int | None = None
    """Lines of one color belong together; by default each has its own."""


@dataclass(frozen=True)
class Chart:
    """Lines over one axis."""

    identifier: str
    """Of the element in the page; unique there."""
    title: str
    x: str
    """What the axis is, with its unit."""
    y: str
    series: list[Series]
    levels: list[tuple[str, float]] = field(default_factory=list)
    """Dotted lines across: what a number is to be compared with."""
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    """What has to be known to read it, in the caption."""

    @property
    def table(self) -> Table:
        """All numbers behind the lines: a row for each x, a column for each line and seed."""
        columns = [(_heading(s, i), dict(run)) for s in self.series for i, run in enumerate(s.runs)]
        every = sorted({x for _, run in columns for x in run})
        rows = [[_number(x), *(_number(run.get(x)) for _, run in columns)] for x in every]
        rows += [[name, _number(value), *[""] * (len(columns) - 1)] for name, value in self.levels]
        return Table([self.x, *(heading for heading, _ in columns)], rows, f"{self.title}: {self.y}")

    @property
    def says(self) -> str:
        """A text alternative, for readers who cannot see the chart."""
        names = ", ".join(s.name for s in self.series)
        return f"{self.title}. {self.y} over {self.x}: {names}."


@dataclass(frozen=True)
class Heat:
    """One number for each row and column, such as layer and head."""

    identifier: str
    title: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]
    """As many as rows, each as many as columns."""
    what: str
    """The number, with its unit."""
    note: str = ""

    @property
    def table(self) -> Table:
        return Table(["", *self.columns], [[row, *map(_number, values)] for row, values in zip(self.rows, self.values)], f"{self.title}: {self.what}")

    @property
    def says(self) -> str:
        return f"{self.title}. {self.what}, {len(self.rows)} rows by {len(self.columns)} columns."


def _heading(series: Series, i: int) -> str:
    return series.name if len(series.runs) == 1 else f"{series.name}, run {i + 1}"


def _number(value: float | None) -> str:
    """Four digits that mean something; whole numbers whole."""
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"
