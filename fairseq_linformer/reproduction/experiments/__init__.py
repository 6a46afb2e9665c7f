"""One file per table, figure or theorem of the paper, or claim of this project: claims, rules, runs, table and
chart."""
