#!/usr/bin/env bash
# Opens the pages of `replay` and `report` in a real browser: every step of 20 episodes beside the
# environment, keys, requests, accessibility (axe-core). Sets up .venv, and chromium where apt is
# there and may install it; otherwise have chromium on the path. Options go on to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-pages.txt
if ! command -v chromium > /dev/null && ! command -v chromium-browser > /dev/null; then
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get update -qq
  $sudo apt-get install --yes -qq chromium
fi
# Where they were skipped, nothing would have been checked.
WORKFLOW_RL_NEEDS_BROWSER=1 exec .venv/bin/python -m pytest tests/browser "$@"
