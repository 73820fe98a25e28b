#!/usr/bin/env bash
# Sets up .venv and runs the tests, in several processes and in random order. Options go on to pytest:
# `-n 0` runs the tests in one process, `--random-order-seed=SEED` repeats an order, and
# `-m 'not slow'` adds the tests of the whole system, which every change must pass, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-dev.txt
# Without bytecode files each of several hundred processes would compile the sources again.
unset PYTHONDONTWRITEBYTECODE
# Tests often wait, hence three processes more than there are cores. nproc would take the number of
# threads of OpenMP for the number of cores.
cores=$(env --unset OMP_NUM_THREADS --unset OMP_THREAD_LIMIT nproc)
exec .venv/bin/python -m pytest -n $((cores + 3)) --dist worksteal --random-order \
    -m "not slow and not system" "$@"
