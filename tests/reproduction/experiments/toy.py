"""An experiment of two claims, as one file: what it needs to be in every command and in the report."""

from fairseq_linformer.machine import current_commit
from fairseq_linformer.reproduction.claim import Claim
from fairseq_linformer.reproduction.experiment import Experiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement, Record, circumstances
from fairseq_linformer.reproduction.report.tables import Table
from fairseq_linformer.reproduction.statistics import Estimate, combine_records, not_measured

DOUBLE = [2.0]
"""Of 1; a test makes it wrong."""


def at_least(limit):
    def evaluate(records, scale):
        found = [r for r in records if r.experiment == "toy" and r.scale == scale]
        if not found:
            return not_measured(f"toy-{scale}")

        def checks(record):
            value = record.find("double").value
            return [Estimate(value, value, value, "twice one").more_than(limit)]

        return combine_records(found, checks)

    return evaluate


class Toy(Experiment):
    name, title, scales = "toy", "A toy", ("smoke", "cpu")
    claims = (
        Claim("toy-small", "here", "Twice one is more than 1.", "Holds if more than 1.", at_least(1)),
        Claim("toy-large", "there", "Twice one is more than 5.", "Holds if more than 5.", at_least(5)),
    )

    def cost(self, scale: str) -> str:
        return "next to nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        measurement = Measurement(metric="double", value=DOUBLE[0], unit="times one")
        return [
            Record(
                identifier=f"toy-{scale}",
                experiment="toy",
                made_by="reproduce",
                claim="Twice one",
                paper={"where": "here"},
                measurements=[measurement],
                commit=current_commit(),
                configuration={"of": 1},
                seconds=0.5,
                tolerance={"times one": 0.1},
                **circumstances("none", command, scale),
            )
        ]

    def tables(self, records) -> list[Table]:
        return (
            [Table(["what", "value"], [["twice one", f"{r.find('double').value:g}"] for r in records], "toys")]
            if records
            else []
        )


EXPERIMENTS = (Toy(),)
