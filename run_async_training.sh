#!/usr/bin/env bash
# Sets up .venv and trains asynchronously. Options go on to the trainer. Without options, one agent
# is trained against all red agents, and scored by the official protocol.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/setup.sh
set_up requirements.txt
if [ $# -eq 0 ]; then
  set -- --preset cage2-quick --final-evaluation 100
fi
exec .venv/bin/python workflow_rl/async_train_workflow_rl.py "$@"
