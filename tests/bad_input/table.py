"""The table of docs/robustness.md, counted from the cases.

python -m tests.bad_input.table     # after a change of cases.py; copy it to the page
"""

from .cases import CASES
from .test_fairseq import FLAGS, YAML

HEAD = "| command | rejected | cases |\n| --- | --- | --- |\n"


def build_table() -> str:
    """A row per command: the subjects of its cases, and their number."""
    subjects: dict[str, dict[str, int]] = {}
    for case in CASES:
        of_command = subjects.setdefault(case.command or "(none)", {})
        of_command[case.subject] = of_command.get(case.subject, 0) + 1
    for command, subject, lines in (
        ("`fairseq-train`", "flags and checkpoints", FLAGS),
        ("`fairseq-hydra-train`", "keys of the configuration", YAML),
    ):
        subjects.setdefault(command, {})[subject] = len(lines.strip().splitlines())
    rows = [
        f"| {command if command.startswith('`') else f'`{command}`'} | {'; '.join(counts)} | {sum(counts.values())} |"
        for command, counts in subjects.items()
    ]
    total = sum(sum(counts.values()) for counts in subjects.values())
    return HEAD + "\n".join([*rows, f"| all | | {total} |"]) + "\n"


if __name__ == "__main__":
    print(build_table(), end="")
