"""``fairseq-linformer report``: the paper beside what was measured, as one page.

    fairseq-linformer report                                  # results/report.html, report.md, report.csv, and the README's part
    fairseq-linformer report --results OUT --out page.html    # of another ledger; the README is left alone
"""

import argparse
from pathlib import Path

RESULTS, README = Path("results"), Path("README.md")


def add_parser(commands) -> None:
    """Add ``report``."""
    parser = commands.add_parser("report", help="write verdicts, tables and charts of the paper beside ours, as one page")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help=f"the ledger ({RESULTS})")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page; tables go to FILE.md, every cell and claim to FILE.csv (FOLDER/report.html)")
    parser.add_argument("--readme", type=Path, metavar="FILE",
                        help=f"README whose part between the report's marks is replaced ({README}, without --results and --out)")  # fmt: skip
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> str:
    from ..reproduction.report.build import write

    results, readme = options.results or RESULTS, options.readme
    if readme is None and options.results is None and options.out is None:
        readme = README
    return "\n".join(map(str, write(results, options.out or results / "report.html", readme)))
