"""One page built from the records: verdicts, and the tables and charts of the paper with ours."""
