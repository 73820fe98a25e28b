#!/usr/bin/env bash
# Tests the lowest and the highest versions of what other packages pin most often, each beside the
# packages of .venv, with the tests of these packages' uses: five minutes.
# Usage: scripts/check_versions.sh [FOLDER]. Environments that FOLDER holds already are kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(realpath -m "${1:-runs/versions}")
packages="gymnasium|pydantic|plotly|prettytable"
ours=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$folder"
for versions in lowest highest; do
  ranges=$(grep -oP "^  \"\K($packages)>=[^\"]+" pyproject.toml)
  [ "$versions" = highest ] || ranges=$(sed -E 's/>=([0-9.]+),.*/==\1/' <<< "$ranges")
  echo "== $versions:" $ranges
  [ -e "$folder/$versions" ] || .venv/bin/python -m venv "$folder/$versions"
  printf '%s\n' "$ours" "$PWD" \
    > "$(echo "$folder/$versions"/lib/python*/site-packages)/beside.pth"
  # Those that .venv has would count as installed.
  "$folder/$versions/bin/python" -m pip install --quiet --upgrade --ignore-installed --no-deps $ranges
  "$folder/$versions/bin/python" -m pip install --quiet pydantic
  "$folder/$versions/bin/python" -m pytest -q -m "not slow and not system" \
    tests/workflow_rl/runs/test_config.py tests/workflow_rl/reporting/test_report.py \
    tests/workflow_rl/environments
done
