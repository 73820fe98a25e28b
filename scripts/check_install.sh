#!/usr/bin/env bash
# Installs the wheel into an empty environment and uses it: several GB, from wherever pip is told to
# look for packages. The packages are those of requirements.lock, each by its hash, or with "lowest"
# the lowest versions that pyproject.toml allows (on Python 3.11: some have no build for a later one).
# Usage: scripts/check_install.sh [locked|lowest] [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
versions=${1:-locked}
python=${2:-$([ "$versions" = lowest ] && echo python3.11 || echo python3)}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A copy: a build leaves files in the folder.
mkdir "$folder/source" "$folder/empty"
cp -r agents workflow_rl LICENSE README.md pyproject.toml requirements.txt "$folder/source"
"$python" -m venv "$folder/venv"
if [ "$versions" = lowest ]; then
  grep -oP '^  "\K[\w-]+>=[\w.]+(?=,<)' pyproject.toml | sed 's/>=/==/' | tee "$folder/lowest.txt"
  "$folder/venv/bin/pip" install --quiet "$folder/source" -r "$folder/lowest.txt"
else
  # A machine's own builds, such as torch's for CPUs alone, have other hashes.
  export PIP_FIND_LINKS=
  "$folder/venv/bin/pip" install --quiet --require-hashes -r requirements.lock
  "$folder/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$folder" "$folder/source"
  "$folder/venv/bin/pip" install --quiet --no-deps --no-index "$folder"/*.whl
fi
"$folder/venv/bin/pip" check
cd "$folder/empty"
PATH="$folder/venv/bin:$PATH"
workflow-rl --help
workflow-rl train-async --n-envs 2 --max-steps 5 --total-episodes 48 --quiet --run-dir run
workflow-rl train-sync --env CartPole-v1 --total-steps 3000 --quiet --run-dir cart-pole
workflow-rl evaluate run --episodes 2 --quiet
workflow-rl evaluate champion --episodes 2 --quiet
workflow-rl export run --format npz --output agent.npz
workflow-rl replay champion --against run
workflow-rl plot run cart-pole
workflow-rl report run cart-pole
python - <<'END'
import importlib.util

import gymnasium

assert importlib.util.find_spec("agents") is None
for simulator in ("cyborg", "compiled"):
    env = gymnasium.make("workflow_rl:workflow_rl/CAGE2-v0", simulator=simulator)
    obs, _ = env.reset(seed=0)
    assert env.step(0)[0].shape == obs.shape == (52,)
envs = gymnasium.make_vec("workflow_rl:workflow_rl/CAGE2-v0", num_envs=3)
envs.reset(seed=0)
assert envs.step([0, 1, 2])[0].shape == (3, 52)
END
