#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment with the packages of requirements.lock,
# each by its hash, and uses it: several GB, from wherever pip is told to look for packages.
# Usage: scripts/check_install.sh [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A copy: a build leaves files in the folder.
mkdir "$folder/source" "$folder/empty"
cp -r agents workflow_rl LICENSE README.md pyproject.toml requirements.txt setup.py "$folder/source"
"$python" -m venv "$folder/venv"
# A machine's own builds, such as torch's for CPUs alone, have other hashes.
export PIP_FIND_LINKS=
"$folder/venv/bin/pip" install --quiet --require-hashes -r requirements.lock
"$folder/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$folder" "$folder/source"
"$folder/venv/bin/pip" install --quiet --no-deps --no-index "$folder"/*.whl
"$folder/venv/bin/pip" check
cd "$folder/empty"
PATH="$folder/venv/bin:$PATH"
workflow-rl --help
workflow-rl train-async --n-envs 2 --max-steps 5 --total-episodes 48 --quiet --run-dir run
workflow-rl evaluate run --episodes 2 --quiet
workflow-rl evaluate champion --episodes 2 --quiet
workflow-rl replay champion --against run
workflow-rl report run
python -c 'import importlib.util; assert importlib.util.find_spec("agents") is None'
