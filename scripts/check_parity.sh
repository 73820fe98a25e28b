#!/usr/bin/env bash
# Trains an agent on the compiled simulator for a minute, then plays the same 42,000 episodes in it
# and in CybORG: 3 red agents x 7 blue ones x 2,000; before them 300 of 1,000 steps in which Blue
# only sets decoys. Exits with 1 if any two differ.
# Options go on to `workflow-rl parity` and win over those below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements.txt

.venv/bin/python -m workflow_rl parity --blue decoys-only --max-steps 1000 --episodes 100
run_dir=$(mktemp -d)
trap 'rm -rf "$run_dir"' EXIT
.venv/bin/python -m workflow_rl train-async --simulator compiled --red-agent mixed \
  --total-episodes 10000 --run-dir "$run_dir" --quiet
.venv/bin/python -m workflow_rl parity --checkpoint "$run_dir" \
  --episodes 2000 --network-episodes 200 --seed 4000000 "$@"
