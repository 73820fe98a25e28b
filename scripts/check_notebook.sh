#!/usr/bin/env bash
# Sets up .venv with what notebooks and the pages on logging and pandas need, and runs both. Options
# go on to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-notebook.txt
exec .venv/bin/python -m pytest -m "slow or not slow" --timeout 900 -v tests/test_notebook.py \
  'tests/test_pages.py::test_what_is_to_be_typed_works[docs/how-to/logging.md]' \
  'tests/test_pages.py::test_what_is_to_be_typed_works[docs/how-to/pandas.md]' "$@"
