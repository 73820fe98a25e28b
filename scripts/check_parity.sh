#!/usr/bin/env bash
# Trains an agent on the compiled simulator for a minute, then plays the same 42,000 episodes in it
# and in CybORG: 3 red agents x 7 blue ones x 2,000; before them 300 of 1,000 steps in which Blue
# only sets decoys, and 720 in which Red's actions come from outside. Exits with 1 if any two
# differ.
# Options go on to `workflow-rl parity` and win over those below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements.txt

reds=(--red-agent B_lineAgent --red-agent RedMeanderAgent --red-agent SleepAgent)
outside=(--red-agent any-action --red-agent possible-action --red-agent impossible-action)
.venv/bin/python -m workflow_rl parity "${reds[@]}" --blue decoys-only --max-steps 1000 --episodes 100
.venv/bin/python -m workflow_rl parity "${outside[@]}" --episodes 40 --network-episodes 10
run_dir=$(mktemp -d)
trap 'rm -rf "$run_dir"' EXIT
.venv/bin/python -m workflow_rl train-async --simulator compiled --red-agent mixed \
  --total-episodes 10000 --run-dir "$run_dir" --quiet
.venv/bin/python -m workflow_rl parity "${reds[@]}" --checkpoint "$run_dir" \
  --episodes 2000 --network-episodes 200 --seed 4000000 "$@"
