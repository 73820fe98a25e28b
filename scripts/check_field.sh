#!/usr/bin/env bash
# Tests the package with the field's simulators, each in an environment of its own beside .venv.
# Usage: scripts/check_field.sh [FOLDER]. Simulators that FOLDER holds already are not fetched again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(realpath -m "${1:-runs/field}")
ours=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$folder"

# environment NAME REQUIREMENT...: sees all of .venv, and prefers its own packages.
environment() {
  [ -e "$folder/$1" ] || .venv/bin/python -m venv "$folder/$1"
  printf '%s\n' "$ours" "$PWD" "$folder/sources/$1" \
    > "$(echo "$folder/$1"/lib/python*/site-packages)/beside.pth"
  "$folder/$1/bin/python" -m pip install --quiet "${@:2}"
}

# source_of NAME URL COMMIT
source_of() {
  [ -e "$folder/sources/$1" ] && return
  git clone --quiet "$2" "$folder/sources/$1"
  git -C "$folder/sources/$1" checkout --quiet "$3"
}

source_of cyberbattle https://github.com/microsoft/CyberBattleSim main
source_of cage3 https://github.com/cage-challenge/CybORG dd586a39b129fb21b7ef4c15d388ad809f24882f
environment nasim nasim==0.12.0
environment cyberbattle numpy==1.26.4 pandas==2.2.3 boolean.py==4.0 networkx==3.2.1 progressbar2 tabulate
environment cage3 "setuptools<66" "wheel<0.39"
environment cage3 --no-build-isolation gym==0.23.1 pettingzoo==1.22.4 docutils paramiko pygame networkx

for name in nasim cyberbattle cage3; do
  echo "== $name"
  "$folder/$name/bin/python" -m pytest -q -m '' tests/workflow_rl/field -rs
done
