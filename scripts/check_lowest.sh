#!/usr/bin/env bash
# Installs the package into an empty environment with the lowest versions that pyproject.toml allows,
# and uses it: several GB, from wherever pip is told to look for packages.
# Usage: scripts/check_lowest.sh [PYTHON 3.11: some have no build for a later one]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3.11}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A copy: a build leaves files in the folder.
mkdir "$folder/source" "$folder/empty"
cp -r agents workflow_rl LICENSE README.md pyproject.toml requirements.txt setup.py "$folder/source"
"$python" -m venv "$folder/venv"
"$python" - > "$folder/lowest.txt" <<'END'
import re
import tomllib

with open("pyproject.toml", "rb") as file:
    for requirement in tomllib.load(file)["project"]["dependencies"]:
        print(re.sub(">=([^,]+),<.*", r"==\1", requirement))
END
cat "$folder/lowest.txt"
"$folder/venv/bin/pip" install --quiet "$folder/source" -r "$folder/lowest.txt"
"$folder/venv/bin/pip" check
cd "$folder/empty"
PATH="$folder/venv/bin:$PATH"
workflow-rl train-async --n-envs 2 --max-steps 5 --total-episodes 48 --quiet --run-dir run
workflow-rl evaluate run --episodes 2 --quiet
workflow-rl export run --format torchscript --output agent.pt
workflow-rl train-sync --env CartPole-v1 --total-steps 3000 --quiet --run-dir cart-pole
workflow-rl plot run cart-pole
workflow-rl report run cart-pole
python - <<'END'
import gymnasium

ID = "workflow_rl:workflow_rl/CAGE2-v0"
for simulator in ("cyborg", "compiled"):
    env = gymnasium.make(ID, simulator=simulator)
    obs, _ = env.reset(seed=0)
    assert env.step(0)[0].shape == obs.shape == (52,)
envs = gymnasium.make_vec(ID, num_envs=3)
envs.reset(seed=0)
assert envs.step([0, 1, 2])[0].shape == (3, 52)
END
