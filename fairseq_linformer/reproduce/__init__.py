"""What the paper and the demo show, measured: figures, tables and what they are made from."""
