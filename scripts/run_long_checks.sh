#!/usr/bin/env bash
# Sets up .venv and runs the long checks, about half an hour: traces of hundreds of episodes against
# stock CybORG, episodes and weights against the digests in tests/kept, learning on three seeds,
# full-size runs killed and resumed, memory of 100 workers, 200 drawn environments that go all the way
# from training to export, or are refused.
# Options go on to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-dev.txt
exec .venv/bin/python -m pytest -m slow --timeout 3600 -v --capture no "$@"
