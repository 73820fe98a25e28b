"""The runs that faults strike: their options, and what they have learned from."""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from tests.tiny_runs import recorded_updates
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands import main as cli
from workflow_rl.commands.training_options import new_config
from workflow_rl.parallel_train_workflow_rl import train_sync
from workflow_rl.runs.config import TrainConfig

FREE = ("train-async", "--async-rl", "--batching")
MODES: dict[str, tuple[str, ...]] = {
    "sync": ("train-sync",),
    "async": ("train-async",),
    "lag-1": ("train-async", "--async-rl"),
    "lag-1-sync": ("train-sync", "--async-rl"),
    "whole-batches": (*FREE, "whole-batches"),
    "first-come": (*FREE, "first-come"),
    "first-come-unrolls": (*FREE, "first-come", "--num-steps-per-env", "5"),
}
"""The commands of the modes. Those of FREE run freely: their weights depend on who is faster."""
SAME_WEIGHTS = {"sync": "async", "async": "async", "lag-1": "lag-1", "lag-1-sync": "lag-1"}
"""The modes that promise the same weights whatever happens, and whose they are."""
SIMULATORS = ("cyborg", "compiled")

EPISODES_PER_UPDATE, MAX_STEPS = 12, 10
OPTIONS = (
    *("--red-agent", "mixed", "--max-steps", str(MAX_STEPS), "--seed", "3"),
    *("--n-envs", "6", "--n-workers", "3"),
    *("--hidden-sizes", "16", "--minibatch-size", "60", "--epochs", "1"),
    *("--max-worker-failures", "100000", "--checkpoint-every", "1"),
    *("--eval-every", "12", "--eval-episodes", "6"),
)


def options_of(mode: str, simulator: str, updates: int, *more: str) -> list[str]:
    size = ["--total-episodes", str(updates * EPISODES_PER_UPDATE)]
    if "--num-steps-per-env" in MODES[mode]:
        size += ["--steps-per-update", str(EPISODES_PER_UPDATE * MAX_STEPS)]
    else:
        size += ["--episodes-per-update", str(EPISODES_PER_UPDATE)]
    return [*MODES[mode], *OPTIONS, *size, "--simulator", simulator, *more]


def config_of(mode: str, simulator: str, updates: int, *more: str) -> TrainConfig:
    """What this command line asks for."""
    name, *options = options_of(mode, simulator, updates, *more)
    command = {"train-sync": train_sync, "train-async": train_async}[name]
    with command.make_context(name, options) as context:
        return new_config("sync" if command is train_sync else "async", context.params)


class Piece(NamedTuple):
    """What tells which steps of which episode a trajectory is of."""

    episode: int
    steps_before: int
    length: int
    ended: bool


def learned(record: Path) -> list[Piece]:
    """What the agent that a run ended with has learned from, over all processes of the run.

    Updates that a process did and that were lost with it have been done again by a later one.
    """
    pieces_of: dict[int, list[Piece]] = {}
    for line in record.read_text().splitlines():
        version, pieces = json.loads(line)
        pieces_of[version] = [Piece(*piece) for piece in pieces]
    return [piece for version in sorted(pieces_of) for piece in pieces_of[version]]


def main(record: str, *arguments: str) -> None:
    """The command line, with a line in `record` for every update before it is done."""
    file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write() -> None:
        version, trajectories = updates.pop()
        pieces = [(t.episode, t.steps_before, t.length, bool(t.ended)) for t in trajectories]
        # In one call: a process that is killed writes it or does not.
        os.write(file, (json.dumps([version, pieces]) + "\n").encode())

    with recorded_updates(write) as updates:
        cli.main(arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
