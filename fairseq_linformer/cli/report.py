"""``fairseq-linformer report``: the paper beside what was measured, as one page.

    fairseq-linformer report                                  # results/report.html, report.md, report.csv, and the README's part
    fairseq-linformer report --results OUT --out page.html    # of another ledger; the README is left alone
"""

import argparse
from pathlib import Path

RESULTS, README = Path("results"), Path("README.md")


def add_parser(commands) -> None:
    """Add ``report``."""
    parser = commands.add_parser("report", help="verdicts, tables and figures of the paper beside ours, of the ledger alone, as one page")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help=f"the ledger ({RESULTS})")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page; its tables go into FILE.md too, each cell and claim into FILE.csv (FOLDER/report.html)")
    parser.add_argument("--readme", type=Path, metavar="FILE",
                        help=f"README whose part between the marks of the report is made anew ({README}, if neither --results nor --out is given)")  # fmt: skip
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> str:
    from ..reproduce import report

    results, readme = options.results or RESULTS, options.readme
    if readme is None and options.results is None and options.out is None:
        readme = README
    return "\n".join(map(str, report.write(results, options.out or results / "report.html", readme)))
