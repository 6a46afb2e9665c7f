#!/usr/bin/env bash
# Check lint, format, types and documentation, after scripts/setup.sh.
#
#   scripts/lint.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
run() { echo "$*"; .venv/bin/"$@"; }
run ruff check .
run ruff format --check .
run mypy
NO_MKDOCS_2_WARNING=1 run mkdocs build --strict --site-dir build/site
