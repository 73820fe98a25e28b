#!/usr/bin/env bash
# Tries the package's CUDA path, in at most five minutes: the tests of it, what CPU and GPU learn from
# the same seeds, and the seconds of an update on both. Writes gpu.json into the folder --out, and
# prints tables. `--device cpu` tries the check itself. PYTHON names a Python that has the packages;
# without it, .venv is set up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${PYTHON:-}" ]; then
  source scripts/setup.sh
  set_up requirements-dev.txt
  PYTHON=.venv/bin/python
fi
exec "$PYTHON" scripts/check_gpu.py "$@"
