#!/usr/bin/env bash
# Sets up an environment of its own, .venv-ray, and runs in it all tests that need Ray: those of one
# pool and of clusters of several nodes, with workers, nodes and main processes lost; about half an
# hour. Options go on to pytest: `-m "not slow"` leaves out the long ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ ! -f .venv-ray/.set_up ] || [ requirements-ray.txt -nt .venv-ray/.set_up ]; then
  python3 -m venv .venv-ray
  .venv-ray/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-ray.txt
  touch .venv-ray/.set_up
fi
export PATH="$PWD/.venv-ray/bin:$PATH"  # The page's steps call ray and python.
exec .venv-ray/bin/python -m pytest -m "slow or not slow" --timeout 900 -v \
  tests/workflow_rl/cluster/test_cluster.py tests/workflow_rl/cluster/test_ray_pool.py \
  tests/workflow_rl/cluster/test_ray_nodes.py tests/faults/test_cluster_faults.py \
  tests/test_two_nodes.py \
  'tests/test_pages.py::test_what_is_to_be_typed_works[docs/how-to/cluster.md]' "$@"
