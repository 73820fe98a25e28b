#!/usr/bin/env bash
# Tests the package with the field's simulators, each in an environment of its own.
# Usage: scripts/check_field.sh [FOLDER [NAME...]]. Simulators that FOLDER holds already are not
# fetched again: remove one that is half installed. NAME: of simulators, such as nasim; all of them
# without one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(realpath -m "${1:-runs/field}")
asked=" ${*:2} "
mkdir -p "$folder"
held=" $(ls "$folder" | tr '\n' ' ')"
ours=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# asks_for NAME
asks_for() { [ "$asked" = "  " ] || [[ $asked == *" $1 "* ]]; }

# lacks NAME: it is asked for, and was not there at the start.
lacks() { asks_for "$1" && [[ $held != *" $1 "* ]]; }

# beside NAME REQUIREMENT...: an environment that sees all of .venv, and prefers its own packages.
beside() {
  lacks "$1" || return 0
  own "$1" .venv/bin/python "${@:2}"
  printf '%s\n' "$ours" "$PWD" "$folder/sources/$1" \
    > "$(echo "$folder/$1"/lib/python*/site-packages)/beside.pth"
}

# own NAME PYTHON REQUIREMENT...: an interpreter that has nothing of .venv.
own() {
  lacks "$1" || return 0
  [ -e "$folder/$1" ] || "$2" -m venv "$folder/$1"
  "$folder/$1/bin/python" -m pip install --quiet "${@:3}"
}

# source_of NAME URL COMMIT
source_of() {
  lacks "$1" || return 0
  [ -e "$folder/sources/$1" ] && return
  git clone --quiet "$2" "$folder/sources/$1"
  git -C "$folder/sources/$1" checkout --quiet "$3"
}

source_of cyberbattle https://github.com/microsoft/CyberBattleSim main
source_of cage3 https://github.com/cage-challenge/CybORG dd586a39b129fb21b7ef4c15d388ad809f24882f
source_of smaclite https://github.com/uoe-agents/smaclite main
source_of nasimemu https://github.com/jaromiru/NASimEmu bd02fcc
source_of cyberwheel https://github.com/ORNL/cyberwheel c8903e0
source_of primaite https://github.com/Autonomous-Resilient-Cyber-Defence/PrimAITE b48ed25b
source_of yawning_titan https://github.com/dstl/YAWNING-TITAN db25f453

beside nasim nasim==0.12.0
beside cyberbattle numpy==1.26.4 pandas==2.2.3 boolean.py==4.0 networkx==3.2.1 progressbar2 tabulate \
  ipython
beside smaclite pygame scikit-learn rtree

own gymnasium python3.13 minigrid==3.2.0 highway-env==1.12.1 "gymnasium[mujoco]" ale-py==0.12.1
own primaite python3.10 "$folder/sources/primaite" "setuptools<76"
# An episode of 128 steps takes seconds. A FOLDER that an earlier version made lacks the file.
! asks_for primaite || sed "s/max_episode_length: 128/max_episode_length: 16/" \
  "$folder"/primaite/lib/python*/site-packages/primaite/config/_package_data/data_manipulation.yaml \
  > "$folder/primaite/short.yaml"
own cage3 python3.10 "setuptools<66" "wheel<0.39"
own cage3 python3.10 --no-build-isolation -e "$folder/sources/cage3" pettingzoo==1.22.4 "numpy<2"
own csle python3.11 gym-csle-stopping-game==0.10.1 gym-csle-intrusion-response-game==0.10.1
own nasimemu python3.10 "$folder/sources/nasimemu"
own idsgame python3.8 gym==0.26.2 matplotlib seaborn opencv-python-headless jsonpickle
own idsgame python3.8 --no-deps gym-idsgame==1.0.13
own cyberwheel python3.10 --no-deps "$folder/sources/cyberwheel"
own cyberwheel python3.10 bigtree==0.19.3 gymnasium==0.28.1 jsonpickle matplotlib networkx \
  "numpy<2" "pydantic<2" pyyaml ray==2.38.0 tqdm
own yawning_titan python3.8 "pip<24.1" "setuptools<66" "wheel<0.39"
own yawning_titan python3.8 --no-build-isolation gym==0.21.0 numpy==1.23.4 pyyaml==6.0.1 \
  platformdirs==2.5.2 tinydb==4.7.0 networkx==2.5.1 matplotlib==3.6.2 pandas==1.3.5 scipy==1.9.2 \
  tabulate==0.8.9 imageio==2.9.0 typer==0.7.0 typing-extensions==4.4.0 torch==1.13.1 \
  stable-baselines3==1.6.2
own yawning_titan python3.8 --no-deps "$folder/sources/yawning_titan"
! lacks yawning_titan || "$folder/yawning_titan/bin/yawning-titan" setup > /dev/null

export WORKFLOW_RL_FIELD=$folder
check=(-m pytest -q -m '' tests/workflow_rl/field -rs --timeout 1800)
failed=0
for name in nasim cyberbattle smaclite; do
  asks_for $name || continue
  echo "== $name, in an environment beside .venv"
  "$folder/$name/bin/python" "${check[@]}" -k "not own_interpreter" || failed=1
done
for name in gymnasium csle cage3 primaite nasimemu idsgame cyberwheel yawning_titan; do
  asks_for $name || continue
  echo "== $name, in an interpreter of its own"
  .venv/bin/python "${check[@]}" -k "own_interpreter and $name" || failed=1
done
exit $failed
