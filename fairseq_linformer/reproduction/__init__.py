"""The paper's claims and ours: experiments, records of measurements, verdicts, and a report built from the records."""
