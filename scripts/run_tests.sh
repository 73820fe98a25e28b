#!/usr/bin/env bash
# Sets up .venv and runs the tests. Options go on to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-dev.txt
exec .venv/bin/python -m pytest "$@"
