#!/usr/bin/env bash
# Builds the site of docs/ into site/, with warnings as errors: links, anchors, all of the package
# that the reference is written from. Sets up .venv. Options go on to mkdocs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
set_up requirements-docs.txt
# What the theme says of its successor.
export NO_MKDOCS_2_WARNING=1
exec .venv/bin/python -m mkdocs build --strict --clean "$@"
