"""The pages of the results, made from the JSON files alone.

RESULTS/README.md        the paper's tables, figures and theorems in one table, and this project's claims in another
RESULTS/NAME/README.md   an experiment: rule, verdicts, tables, chart, commands
RESULTS/NAME/chart.svg
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ..files import open_atomic
from .display import Panel, Table, draw
from .experiments import load_all
from .result import INPUTS, Result, read
from .scales import NAMES
from .statistics import OUTCOMES, UNMEASURED, Verdict

MARKS = dict(zip(OUTCOMES, "✓✗?"))
README, CHART = "README.md", "chart.svg"
SHOWN = NAMES[1:]
"""The scales of the pages: ``smoke`` shows only that the code runs."""
INTRODUCTION = f"""# Results

Written by `fairseq-linformer reproduce report` from the JSON files in this folder. Each row links to a page with the
rules, the numbers, the machines, and today's commands. The JSON files have the commands that measured them.
Earlier claims and measurements: `git show 62710c63:results`, and until 881e27a `git show 881e27a:results`.

n is the maximum number of tokens of an input. E and F are the projections of equation (7); k is their number of rows,
to which they reduce n keys and values. W is the number of neighbors on each side that a local window adds. An interval
in brackets has the extremes of repeated measurements, or 95 % confidence where the rule says so.

| mark | verdict |
|---|---|
{"".join(f"| {mark} | {outcome} |{chr(10)}" for outcome, mark in MARKS.items())}
| scale | what is measured |
|---|---|
| cpu | small models from scratch, and times on one or two cores |
| encoder | a pretrained encoder of 6 or 12 layers, and Linformers made from it, on a CPU |
| gpu | times at base size on one H100 |
| paper | the paper's sizes, by Slurm |
"""


def write_pages(folder: Path) -> list[Path]:
    """Write all pages; returns their paths."""
    texts = build(folder)
    for path, text in texts.items():
        with open_atomic(path) as file:
            file.write(text)
    return list(texts)


def build(folder: Path) -> dict[Path, str]:
    """The text of each page and chart by its path."""
    texts: dict[Path, str] = {}
    tables = []
    for head, is_papers in (("the paper", True), ("this project", False)):
        modules = {name: each for name, each in load_all().items() if hasattr(each, "WHERE") == is_papers}
        scales = [scale for scale in SHOWN if any(scale in module.PARTS for module in modules.values())]
        rows = []
        for name, module in modules.items():
            place = name.replace("-", "_")
            results = {scale: found for scale in SHOWN if (found := read(folder / place / f"{scale}.json"))}
            cells = [_marks(module.verdicts(results[scale])) if scale in results else "" for scale in scales]
            rows.append([f"[{module.TITLE}]({place}/{README})", module.SAYS, *cells])
            chart = getattr(module, "chart", None)
            panels = [panel for found in results.values() for panel in chart(found)] if chart else []
            if panels:
                texts[folder / place / CHART] = draw(panels)
            texts[folder / place / README] = _experiment(name, module, results, panels)
        tables.append(Table("", [head, "claim", *scales], rows).markdown())
    texts[folder / README] = f"{INTRODUCTION}\n## The paper\n\n{tables[0]}\n\n## Beyond the paper\n\n{tables[1]}\n"
    return texts


def _marks(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(f"{MARKS[v.outcome]} {v.name}".strip() for v in verdicts if v.outcome != UNMEASURED)


def _experiment(name: str, module: ModuleType, results: dict[str, list[Result]], panels: Sequence[Panel]) -> str:
    place = f"{module.WHERE} of the paper." if hasattr(module, "WHERE") else ""
    parts = [f"# {module.TITLE}: {module.SAYS}", place, inspect.getdoc(module) or ""]
    rows: list[list[str]] = []
    remarks: dict[str, list[str]] = {}
    for scale, found in results.items():
        for verdict in module.verdicts(found):
            if verdict.outcome != UNMEASURED:
                mark = f"{MARKS[verdict.outcome]} {verdict.outcome}"
                rows.append([verdict.name, verdict.claim, scale, mark, (verdict.numbers or [""])[0]])
            for remark in verdict.remarks:
                remarks.setdefault(remark, []).append(f"{verdict.name}, {scale}")
    parts += ["## Verdicts", Table("", ["name", "claim", "scale", "verdict", "first number"], rows).markdown()]
    if remarks:
        parts += ["Not part of a verdict:", "\n".join(f"- {'; '.join(of)}: {each}" for each, of in remarks.items())]
    parts += [f"![{'; '.join(panel.title for panel in panels)}]({CHART})"] if panels else []
    parts += [table.markdown() for each in results.values() for table in module.tables(each)]
    parts += ["## Commands", _commands(name, module), "Measured:", _environments(results)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _commands(name: str, module: ModuleType) -> str:
    """A command per scale, with the options that its parts read."""
    lines = []
    for scale, parts in module.PARTS.items():
        options = dict.fromkeys(option for reads in parts.values() for option in reads)
        words = "".join(f" --{option} {INPUTS[option]}" for option in options)
        lines.append(f"    fairseq-linformer reproduce {name} --scale {scale}{words}")
    return "\n".join(lines)


def _environments(results: dict[str, list[Result]]) -> str:
    """The environments of the results, each once, with the parts that it is of."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for result in (result for each in results.values() for result in each):
        e, hardware = result.environment, result.environment["hardware"]
        machine = [hardware["processor"], f"{hardware['cores']} cores", *(hardware.get("accelerators") or [])[:1]]
        version = f"torch {e['versions'].get('torch', '?')}"
        found.setdefault((result.scale, e["date"], e["commit"], ", ".join(machine), version), []).append(result)
    rows = []
    for (scale, date, commit, *others), parts in found.items():
        names = "; ".join(part.part for part in parts) if len(parts) <= 6 else f"{len(parts)} parts"
        commits = ", ".join(each[:8] for each in commit.split("; "))
        hours = sum(part.environment["seconds"] for part in parts) / 3600
        rows.append([scale, names, date, commits, *others, f"{hours:.2g}"])
    return Table("", ["scale", "parts", "date", "commit", "machine", "version", "hours"], rows).markdown()
