#!/usr/bin/env bash
# Sets up .venv and trains asynchronously. Options go on to the trainer; without any, a run of a few
# minutes on real CybORG that ends with its score on the official protocol.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/setup.sh
set_up requirements.txt
if [ $# -eq 0 ]; then
  set -- --red-agent B_lineAgent --total-episodes 3000 --final-evaluation 100
fi
exec .venv/bin/python workflow_rl/async_train_workflow_rl.py "$@"
