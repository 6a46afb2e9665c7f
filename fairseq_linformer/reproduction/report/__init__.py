"""One page made of the records: verdicts, tables and charts of the paper beside ours."""
