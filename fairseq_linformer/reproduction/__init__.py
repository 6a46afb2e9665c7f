"""The paper's claims and ours: experiments, records of what was measured, verdicts, and a report made of the records."""
