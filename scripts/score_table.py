"""A table of the scores that ``fairseq-linformer evaluate --json`` wrote.

    python scripts/score_table.py [--latex] FILE...

A row is described by its file's name: k=32,sharing=headwise,seed=1.json has the columns k, sharing and seed. Files that
differ only in their seed share a row, with the mean and the standard deviation of their scores. In roberta,seed=1.json,
roberta is in the column model. Scores are the perplexity, or those of a task (accuracy in percent).
"""

import argparse
import json
import re
from pathlib import Path
from statistics import mean, stdev

DIGITS = {"perplexity": 2, "accuracy": 1}


def read_row(path: Path) -> tuple[dict[str, str], dict[str, float]]:
    """The columns of a file's name, and its scores by name."""
    settings = dict(part.rpartition("=")[::2] for part in path.name.removesuffix(".json").split(","))
    content = json.loads(path.read_text(encoding="utf-8"))
    if "parameters" in content:
        settings["parameters"] = f"{content['parameters']:,}"
    if "perplexity" in content:
        return settings, {"perplexity": content["perplexity"]}
    if "scores" not in content:
        raise SystemExit(f"{path} has no scores: its rows have no labels")
    scores = {name: score["value"] for name, score in content["scores"].items()}
    return settings, {name: 100 * value if name == "accuracy" else value for name, value in scores.items()}


def build_table(paths: list[Path]) -> list[list[str]]:
    """The head and a row per setting, in the order of the files' names with numbers by value; an unknown cell is
    empty."""
    groups: dict[tuple, list[dict[str, float]]] = {}
    names = [path.name for path in paths]
    if len({*names}) < len(names):
        raise SystemExit(f"file names must be different, since they describe the rows, got {', '.join(names)}")
    for path in sorted(paths, key=by_value):
        settings, scores = read_row(path)
        key = tuple((name, value) for name, value in settings.items() if name != "seed")
        groups.setdefault(key, []).append(scores)
    columns = list(dict.fromkeys(name for key in groups for name, _ in key))
    metrics = list(dict.fromkeys(name for runs in groups.values() for run in runs for name in run))
    rows = [["model" if name == "" else name for name in columns] + metrics]
    for key, runs in groups.items():
        cells = [dict(key).get(name, "") for name in columns]
        rows.append(cells + [format_score(name, [run[name] for run in runs if name in run]) for name in metrics])
    return rows


def by_value(path: Path) -> list[tuple[int, str]]:
    """A key for sorting.

    >>> sorted([Path("k=16.json"), Path("k=8.json")], key=by_value)
    [PosixPath('k=8.json'), PosixPath('k=16.json')]
    """
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", path.name)]


def format_score(name: str, values: list[float]) -> str:
    """
    >>> format_score("accuracy", [84.0]), format_score("accuracy", [84.0, 86.0]), format_score("f1", [])
    ('84.0', '85.0 ± 1.4', '')
    """
    if not values:
        return ""
    digits = DIGITS.get(name, 3)
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def format_table(rows: list[list[str]], latex: bool) -> str:
    """Markdown, or a LaTeX tabular with the rules of the package booktabs."""
    if not latex:
        head, *body = ("| " + " | ".join(row) + " |" for row in rows)
        return "\n".join([head, "|" + "---|" * len(rows[0]), *body])
    head, *body = (" & ".join(row).replace("±", r"$\pm$").replace("_", r"\_") + r" \\" for row in rows)
    begin = rf"\begin{{tabular}}{{{'l' * len(rows[0])}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--latex", action="store_true", help="write LaTeX instead of Markdown")
    options = parser.parse_args()
    if missing := [str(file) for file in options.files if not file.is_file()]:
        parser.error(f"{missing[0]} is not a file")
    print(format_table(build_table(options.files), options.latex))
