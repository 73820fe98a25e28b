"""What a search over Blue's belief would add to an agent, to first order.

In one step of each of some episodes, every other choice is tried in imagined episodes. A choice
that looks better is judged by rollouts of its own, so that chance does not look like gain. The
agent sees no time, but the search does: it counts each step by the cells in which it counts.

    python scripts/search_over_belief.py champion
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl.portable  # isort: skip  # noqa: F401  # Before anything loads NumPy.

import numpy as np
from numpy.typing import NDArray

from agents.policies.numpy_policy import PolicyParameters
from workflow_rl.cage2.agent.rollouts import (
    CELLS,
    Believed,
    Watched,
    imagined_gains,
    load_searchable,
    that_matter,
)
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.selection import ATTACKERS
from workflow_rl.runs.checkpoint import CheckpointError

JUDGES = 8
"""Times as many rollouts judge a deviation as choose it."""
SEED = 154
"""The seed of the episodes. Nothing was trained or chosen on them."""


class Found(NamedTuple):
    """The agent's choice, the best other one, and its gain by rollouts of its own."""

    own: str
    better: str
    gain: float


def states(
    policy: PolicyParameters, environment: Cage2, red_agent: str, at: NDArray[np.int64]
) -> list[tuple[Believed, int]]:
    """Return the moment and the agent's choice at step `at[i]` of each episode i."""
    watched, found = Watched(policy, environment, [red_agent] * len(at), SEED), []
    for t in range(int(at.max()) + 1):
        found += [
            (watched.place(int(env)), int(watched.choices[env])) for env in np.flatnonzero(at == t)
        ]
        watched.step()
    return found


def look(
    policy: PolicyParameters,
    actions: str,
    state: tuple[Believed, int],
    n_rollouts: int,
    n_steps: int,
    random: np.random.Generator,
) -> Found | None:
    """Return the deviation that gains more than its standard error, if any."""
    where, own = state
    matter = that_matter(actions, where)
    others = [choice for choice in matter if choice != own]

    def gains_of(choices: list[int], n: int) -> NDArray[np.float64]:
        return imagined_gains(policy, actions, where, own, choices, n_steps, n, random)

    if not others:
        return None
    gains = gains_of(others, n_rollouts)
    surely = gains.mean(axis=1) - gains.std(axis=1) / np.sqrt(n_rollouts)
    best = int(surely.argmax())
    if surely[best] <= 0:
        return None
    gain = float(gains_of([others[best]], JUDGES * n_rollouts).mean())
    name = ACTION_NAMES[matter[own]] if own in matter else "what changes nothing"
    return Found(name, ACTION_NAMES[matter[others[best]]], gain)


@click.command(help=__doc__)
@click.argument("agent", type=click.Path(path_type=Path))
@click.option("--states", "n_states", default=150, show_default=True, type=click.IntRange(2))
@click.option("--rollouts", default=100, show_default=True, type=click.IntRange(2),
              help="Rollouts that choose a deviation.")  # fmt: skip
@click.option("--steps", default=35, show_default=True, type=click.IntRange(1, len(CELLS)),
              help="Steps of each rollout.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(agent: Path, n_states: int, rollouts: int, steps: int, seed: int) -> None:
    """Print the gain against each attacker."""
    try:
        policy, environment = load_searchable(agent)
    except CheckpointError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    n_before = len(environment.opening)
    for red_agent in ATTACKERS:
        random = np.random.default_rng(seed)
        at = random.integers(n_before, len(CELLS), n_states)
        start, found = time.perf_counter(), list[Found | None]()
        looked_at = states(policy, environment, red_agent, at)
        for state in tqdm(looked_at, desc=red_agent, unit="state", disable=None):
            found.append(look(policy, environment.actions, state, rollouts, steps, random))
        seconds = (time.perf_counter() - start) / n_states
        gains = (len(CELLS) - n_before) * np.array([one.gain if one else 0.0 for one in found])
        interval = 1.96 * gains.std(ddof=1) / np.sqrt(n_states)
        click.echo(
            f"{red_agent}: {gains.mean():+.2f} ± {interval:.2f} an episode of {len(CELLS)} steps, "
            f"all cells together; {seconds:.2f} s a decision"
        )
        commonest = Counter((one.own, one.better) for one in found if one).most_common(5)
        for (own, better), count in commonest:
            click.echo(f"  {count} x {better} instead of {own}")


if __name__ == "__main__":
    main()
