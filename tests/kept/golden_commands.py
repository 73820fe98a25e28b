"""Commands whose runs end with stored weights and metrics.

`python -m tests.kept.golden_commands [--only PATTERN]` writes golden_commands.json anew. The
commands are words that users type, so nothing here depends on how the package is built.
"""

import json
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path

import click

from tests.any_envs import PuzzleEnv
from tests.kept.test_reference_weights import results_of
from tests.pages import ROOT

FILE = Path(__file__).parent / "golden_commands.json"
PATIENCE = 600.0
"""Seconds that a command may take before it is interrupted, on a busy machine."""

CART_POLE = ("train-async", "--env", "CartPole-v1", "--seed", "5", "--total-steps", "3000")
PUZZLE = ("train-async", "--env", "tests.any_envs:PuzzleEnv", "--seed", "5")
RECALL = ("train-async", "--env", "tests.recall_env:RecallEnv", "--seed", "5")
PENDULUM = ("train-async", "--env", "Pendulum-v1", "--seed", "5")
SHORT = ("--total-steps", "1200", "--steps-per-update", "300")
LAGGING = ("--async-rl", "--episodes-per-update", "12")
COMMANDS: dict[str, tuple[str, ...]] = {
    "ppo": CART_POLE,
    "ppo, synchronous": ("train-sync", *CART_POLE[1:]),
    "lag 1": (*CART_POLE, *LAGGING),
    "lag 8": (*CART_POLE, *LAGGING, "--num-batches-to-accumulate", "8"),
    "V-trace": (*CART_POLE, *LAGGING, "--correction", "vtrace"),
    "unrolls": (*CART_POLE, "--num-steps-per-env", "32", "--steps-per-update", "512"),
    "unrolls, lag 1": (*CART_POLE, "--preset", "rsl-batch", "--n-envs", "8"),
    "shared trunk, relu": (*CART_POLE, "--shared-trunk", "--activation", "relu"),
    "continuous actions": (*PENDULUM, "--total-steps", "3200"),
    "sac": (*PENDULUM, "--algorithm", "sac", "--total-steps", "1600"),
    "mbpo": (*PENDULUM, "--algorithm", "mbpo", "--total-steps", "1600"),
    "several choices": (*PUZZLE, *SHORT),
    "masks": ("train-async", "--env", "tests.any_envs:MaskedPuzzleEnv", "--seed", "5", *SHORT),
    "entities": (*PUZZLE, *SHORT, "--network", "entities"),
    "graph": (
        *("train-async", "--env", "tests.kept.golden_commands:JoinedPuzzle", "--seed", "5"),
        *(*SHORT, "--network", "graph"),
    ),
    "gru": (*RECALL, *SHORT, "--network", "gru"),
    "lstm": (*RECALL, *SHORT, "--network", "lstm", *LAGGING[:1]),
    "frame-stack": (*RECALL, *SHORT, "--network", "frame-stack"),
    "cnn": ("train-async", "--env", "tests.any_envs:PictureEnv", "--seed", "5", *SHORT),
    "own network": (*RECALL, *SHORT, "--network", "tests.own_networks:Remembering"),
    "team": ("train-async", "--env", "tests.tiny_teams:ShiftEnv", "--seed", "5", *SHORT),
    "batched team": ("train-async", "--env", "tests.tiny_teams:Shifts", "--seed", "5", *SHORT),
    "own interpreter": (
        *("train-async", "--env", "tests.env_of_any_python:Walk", "--seed", "5", *SHORT),
        *("--env-python", sys.executable),
    ),
    "population": (
        *("train-population", *CART_POLE[1:], "--n-policies", "2", "--steps-per-update", "512"),
        *("--period", "20", "--start", "40", "--range", "learning_rate=0.0005:0.005"),
    ),
    "teacher": (
        *("train-async", "--preset", "cage2-quick", "--seed", "5", "--n-envs", "8"),
        *("--teacher", "decoys", "--teacher-episodes", "8"),
        *("--episodes-per-update", "8", "--total-episodes", "24"),
    ),
    "evaluated meanwhile": (*CART_POLE, "--eval-every", "1", "--eval-episodes", "5"),
}
"""Runs of a few updates each."""


class JoinedPuzzle(PuzzleEnv):
    """PuzzleEnv whose lamps stand in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.entities["edges"] = {"beside": [[0, 1], [1, 2]]}


def run(name: str, folder: Path) -> dict[str, dict[str, str]]:
    """Train in a new folder. Return the results of each run in it, by its place."""
    subprocess.run(_words(name, folder), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return results(folder)


def run_interrupted(name: str, folder: Path) -> dict[str, dict[str, str]]:
    """Do as `run` does, but kill the run after its first update, and resume it."""
    process = subprocess.Popen(_words(name, folder), cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and not _has_learned(folder):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    resume = [*_words(name, folder)[:4], "--resume", str(folder), "--quiet"]
    if not (folder / "summary.json").exists():
        subprocess.run(resume, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return results(folder)


def results(folder: Path) -> dict[str, dict[str, str]]:
    """Digests of the last weights of each run in a folder, and the last row of its metrics."""
    runs = sorted(file.parent for file in folder.rglob("checkpoint.safetensors"))
    return {str(path.relative_to(folder)): results_of(path) for path in runs}


def _words(name: str, folder: Path) -> list[str]:
    own = [*COMMANDS[name], "--run-dir", str(folder), "--quiet"]
    return [sys.executable, "-m", "workflow_rl", *own]


def _has_learned(folder: Path) -> bool:
    # The first line of a table has the names of its columns.
    return any(file.read_text().count("\n") > 1 for file in folder.rglob("metrics.csv"))


@click.command()
@click.option("--only", metavar="PATTERN", default="*", help="Of the names of commands.")
def main(only: str) -> None:
    """Write the results of the commands with such a name. The others stay as they are."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in COMMANDS:
        if fnmatchcase(name, only):
            with tempfile.TemporaryDirectory() as folder:
                stored[name] = run(name, Path(folder, "run"))
            print(name, flush=True)
            record = {name: stored[name] for name in COMMANDS if name in stored}
            FILE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
