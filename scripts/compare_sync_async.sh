#!/usr/bin/env bash
# Times the synchronous and the asynchronous trainer on the same small budget.
# Usage: scripts/compare_sync_async.sh [--n-envs N] [--total-episodes N] [further trainer options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=python3
if [ -x .venv/bin/python ]; then python=.venv/bin/python; fi

for trainer in parallel async; do
  echo "== ${trainer}_train_workflow_rl.py"
  # Options given here come last, so that they win over the defaults.
  time "$python" "workflow_rl/${trainer}_train_workflow_rl.py" \
    --n-envs 100 --total-episodes 200 --quiet "$@"
done
