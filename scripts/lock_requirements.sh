#!/usr/bin/env bash
# Writes requirements.lock and requirements-dev.lock: what requirements*.txt pin, all that it brings
# along, and the hash of every file, for each Python the package runs on. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_CUSTOM_COMPILE_COMMAND="bash scripts/lock_requirements.sh"
lock() {
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-emit-index-url --no-emit-find-links "$@"
}
lock requirements-dev.txt --output-file requirements-dev.lock
# The same versions in both.
lock requirements.txt --constraint requirements-dev.lock \
  --output-file requirements.lock
