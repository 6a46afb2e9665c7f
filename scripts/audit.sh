#!/usr/bin/env bash
# List the licenses of the installed packages, then their known vulnerabilities, after scripts/setup.sh.
#
#   scripts/audit.sh        # status 1 if a package has a known vulnerability
#
# pip-audit is installed into build/audit, and asks the package index. Without a network the script says so, and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
"$python" - <<'LICENSES'
from importlib.metadata import distributions

for package in sorted(distributions(), key=lambda package: package.name.lower()):
    data = package.metadata
    names = [line.rpartition(" :: ")[2] for line in data.get_all("Classifier", []) if line.startswith("License ::")]
    text = (data.get("License") or "unknown").strip().splitlines()[0][:60]
    print(f"{package.name} {package.version}: {data.get('License-Expression') or ', '.join(names) or text}")
LICENSES
"$python" -m venv build/audit
if ! build/audit/bin/python -m pip --disable-pip-version-check --quiet install pip-audit; then
    echo "audit.sh: pip-audit cannot be installed; vulnerabilities were not checked" >&2
    exit 0
fi
status=0
report=$(build/audit/bin/pip-audit --progress-spinner off --path "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" 2>&1) || status=$?
echo "$report"
if [ "$status" != 0 ] && ! grep -q 'known vulnerabilit' <<<"$report"; then
    echo "audit.sh: pip-audit failed; vulnerabilities were not checked" >&2
    exit 0
fi
exit "$status"
