#!/usr/bin/env bash
# Times the synchronous and the asynchronous trainer on the same small budget.
# Usage: scripts/compare_sync_async.sh [--n-envs N] [--total-episodes N] [further trainer options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements.txt

for trainer in parallel async; do
  echo "== ${trainer}_train_workflow_rl.py"
  # Options given here come last, so that they win over the defaults.
  time .venv/bin/python "workflow_rl/${trainer}_train_workflow_rl.py" \
    --n-envs 100 --episodes-per-update 100 --total-episodes 200 --quiet "$@"
done
