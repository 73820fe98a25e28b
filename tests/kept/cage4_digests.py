"""Digests of episodes of CAGE Challenge 4, with which a simulator is checked without CybORG.

This command stores those of the official CybORG 4, sped up:

    python -m tests.kept.cage4_digests --cyborg4 cage-challenge-4
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.cyborg.checkout import VARIABLE, CheckoutError
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS
from workflow_rl.cage4.scenario.simulator_protocol import Simulator, StepResult

FILE = Path(__file__).parent / "cage4_digests.npz"

STEP_BYTES = 4
STATE_EVERY = 50

STORED_TEAMS = tuple(name for name in TEAMS if name not in ("champion", "steadfast"))
"""The teams whose episodes are stored. The champion's weights, which steadfast has too, change."""


def state_digest(true_state: list[Any]) -> bytes:
    """Return 16 bytes that two simulators share if their true states are equal."""
    return hashlib.blake2b(repr(true_state).encode(), digest_size=16).digest()


class EpisodeDigests(NamedTuple):
    """Digests of one episode of `T` steps.

    steps: uint8 `[T + 1, STEP_BYTES]`, of observations, phase, busy agents, the reward's parts,
        done and the generator after each step; the first is of the reset, with the masks.
    states: uint8 `[n, 16]`, of the true state after each STATE_EVERY-th step, the reset's first.
    """

    steps: NDArray[np.uint8]
    states: NDArray[np.uint8]

    def first_difference(self, other: EpisodeDigests) -> int | None:
        """Return the first step that differs, or None. A state's difference is found late."""
        steps = [
            step
            for mine, theirs, every in (
                (self.steps, other.steps, 1),
                (self.states, other.states, STATE_EVERY),
            )
            for step in _differences(mine, theirs, every)
        ]
        return min(steps, default=None)


def _differences(mine: NDArray[np.uint8], theirs: NDArray[np.uint8], every: int) -> Sequence[int]:
    n = min(len(mine), len(theirs))
    rows = np.flatnonzero((mine[:n] != theirs[:n]).any(axis=1)).tolist()
    if len(mine) != len(theirs):
        rows.append(n)
    return [row * every for row in rows]


def episode_digests(simulator: Simulator, pair: ComparedEpisode) -> EpisodeDigests:
    """Play an episode with a scripted team. A step that fails ends it."""
    team = make_scripted_team(pair.blue)
    observations = simulator.reset(pair.seed)
    team.reset(simulator.masks, pair.seed)
    steps = [_step_digest(simulator, observations, simulator.masks)]
    states = [state_digest(simulator.true_state())]
    for step in range(1, pair.steps + 1):
        try:
            result: StepResult = simulator.step(*team.act_in(simulator, observations))
        except SimulationError:
            break
        observations = result.observations
        numbers = np.array([result.machine_reward, result.action_cost, result.done])
        steps.append(_step_digest(simulator, observations, [numbers]))
        if step % STATE_EVERY == 0:
            states.append(state_digest(simulator.true_state()))
    return EpisodeDigests(_rows(steps), _rows(states))


def _step_digest(
    simulator: Simulator,
    observations: Sequence[NDArray[np.int64]],
    others: Sequence[NDArray[np.generic]],
) -> bytes:
    digest = hashlib.blake2b(digest_size=STEP_BYTES)
    for array in (*observations, simulator.busy_steps, *others):
        digest.update(np.ascontiguousarray(array, np.int64).tobytes())
    digest.update(repr((simulator.phase, *simulator.generator_state())).encode())
    return digest.digest()


def _rows(digests: list[bytes]) -> NDArray[np.uint8]:
    return np.array([list(digest) for digest in digests], np.uint8)


def stored_name(pair: ComparedEpisode) -> str:
    """Return the name of an episode in a file of digests."""
    return f"{pair.blue}/{pair.red_agent}/{pair.seed}/{pair.steps}"


def pair_of(name: str) -> ComparedEpisode:
    """Return the episode that `stored_name` names."""
    blue, red_agent, seed, steps = name.split("/")
    return ComparedEpisode(blue, red_agent, int(seed), int(steps))


def stored_digests() -> dict[ComparedEpisode, EpisodeDigests]:
    """The digests of the file, by episode."""
    with np.load(FILE) as file:
        names = {key.rpartition("/")[0] for key in file.files}
        return {
            pair_of(name): EpisodeDigests(file[f"{name}/steps"], file[f"{name}/states"])
            for name in sorted(names)
        }


@click.command()
@click.option(
    "--cyborg4",
    type=click.Path(path_type=Path, resolve_path=True),
    help="The checkout of CybORG 4.",
)
@click.option("--seed", type=click.IntRange(0), default=1000, help="Of the first episode.")
def main(cyborg4: Path | None, seed: int) -> None:
    """Store one episode of each pair of a scripted team and red agents."""
    if cyborg4 is not None:
        os.environ[VARIABLE] = str(cyborg4)
    arrays = {}
    try:
        simulators = {red: make_simulator("cyborg", red) for red in RED_AGENTS}
    except CheckoutError as error:
        raise click.UsageError(str(error)) from None
    for i, (blue, red) in enumerate(itertools.product(STORED_TEAMS, RED_AGENTS)):
        pair = ComparedEpisode(blue, red, seed + i, MAX_STEPS)
        digests = episode_digests(simulators[red], pair)
        arrays[f"{stored_name(pair)}/steps"] = digests.steps
        arrays[f"{stored_name(pair)}/states"] = digests.states
        print(pair, flush=True)
    np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
