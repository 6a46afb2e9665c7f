"""The paper's claims and ours: experiments, their results and verdicts, and the pages of the results."""
