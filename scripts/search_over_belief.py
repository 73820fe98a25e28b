"""What a search over Blue's belief would add to an agent: rollouts of every action that matters.

Of episodes of the compiled simulator, one step each is looked at: the agent goes on from there in
imagined episodes, first with its own choice and then with every other that changes anything, always
with the same draws. What looks better is judged by more rollouts, of their own, so that chance does
not look like gain. Summed over an episode's steps that is, to first order, what deviating whenever
it pays adds to the cells' total; the nine cells' horizons count, so that Blue knows the time, which
the agent does not. What an action brings after the rollouts' last step is left out.

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
from workflow_rl.cage2.agent.action_sets import make_action_set
from workflow_rl.cage2.agent.rollouts import (
    CELLS,
    Believed,
    choices_of,
    imagined_rewards,
    load_searchable,
    that_matter,
)
from workflow_rl.cage2.agent.views import BeliefView
from workflow_rl.cage2.compiled.env_batch import CompiledEnvs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.selection import ATTACKERS
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.checkpoint import CheckpointError

N_STEPS = len(CELLS)
JUDGES = 8
"""Times as many rollouts judge a deviation as choose it."""
SEED = 154
"""Of the episodes: nothing was trained or chosen on these."""


class Found(NamedTuple):
    """The agent's choice, the best other one, and what that gains, by the other rollouts."""

    own: str
    better: str
    gain: float


def states(
    policy: PolicyParameters, environment: Cage2, red_agent: str, n: int, at: NDArray[np.int64]
) -> list[tuple[Believed, int]]:
    """Of `n` episodes one step each, `at` [n]: what Blue believes, and its choice."""
    envs, view = CompiledEnvs(N_STEPS, n), BeliefView()
    action_set, every = make_action_set(environment.actions), range(n)
    specs = [episode_spec(SEED, number, (red_agent,), SeedStream.SELECTION) for number in every]
    obs = envs.reset(every, specs)
    shown = view.begin(every, obs)
    action_set.begin(every)
    opening = [ACTION_NAMES.index(name) for name in environment.opening]
    found = []
    for t in range(int(at.max()) + 1):
        choices = choices_of(policy, shown)
        for env in np.flatnonzero(at == t):
            belief, hypotheses = view.beliefs[env].copy(), view.hypotheses[env].copy()
            found.append((Believed(belief, hypotheses, obs[env].copy(), t), int(choices[env])))
        taken = np.full(n, opening[t]) if t < len(opening) else action_set.chosen(every, choices)
        obs = envs.step(every, taken).obs
        shown = view.after(every, taken, obs)
        action_set.after(every, taken)
    return found


def cells_of(t: int, n_steps: int) -> NDArray[np.float64]:
    """In how many cells each of the next steps counts, the first being step t of an episode; at
    most to its end."""
    return CELLS[t : t + n_steps]


def look(
    policy: PolicyParameters,
    actions: str,
    state: tuple[Believed, int],
    n_rollouts: int,
    n_steps: int,
    random: np.random.Generator,
) -> Found | None:
    """The deviation that pays by more than its standard error, if any, judged by other rollouts."""
    where, own = state
    matter = that_matter(actions, where)
    others = [choice for choice in matter if choice != own]
    counts = cells_of(where.n_steps, n_steps)

    def gains_of(choices: list[int], n: int) -> NDArray[np.float64]:
        first = np.array([own, *choices])
        rewards = imagined_rewards(policy, actions, where, first, len(counts), n, random)
        return np.asarray((rewards[1:] - rewards[0]) @ counts)

    if not others:
        return None
    gains = gains_of(others, n_rollouts)
    surely = gains.mean(axis=1) - gains.std(axis=1) / np.sqrt(n_rollouts)
    best = int(surely.argmax())
    if surely[best] <= 0:
        return None
    judged = float(gains_of([others[best]], JUDGES * n_rollouts).mean())
    name = ACTION_NAMES[matter[own]] if own in matter else "what changes nothing"
    return Found(name, ACTION_NAMES[matter[others[best]]], judged)


@click.command(help=__doc__)
@click.argument("agent", type=click.Path(path_type=Path))
@click.option("--states", "n_states", default=150, show_default=True, type=click.IntRange(2))
@click.option("--rollouts", default=100, show_default=True, type=click.IntRange(2),
              help="That choose a deviation.")  # fmt: skip
@click.option("--steps", default=35, show_default=True, type=click.IntRange(1, N_STEPS),
              help="Of each rollout.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(agent: Path, n_states: int, rollouts: int, steps: int, seed: int) -> None:
    """Against both attackers."""
    try:
        policy, environment = load_searchable(agent)
    except CheckpointError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    n_before = len(environment.opening)
    for red_agent in ATTACKERS:
        random = np.random.default_rng(seed)
        at = random.integers(n_before, N_STEPS, n_states)
        start, found = time.perf_counter(), list[Found | None]()
        looked_at = states(policy, environment, red_agent, n_states, at)
        for state in tqdm(looked_at, desc=red_agent, unit="state", disable=None):
            found.append(look(policy, environment.actions, state, rollouts, steps, random))
        seconds = (time.perf_counter() - start) / n_states
        gains = (N_STEPS - n_before) * np.array([one.gain if one else 0.0 for one in found])
        interval = 1.96 * gains.std(ddof=1) / np.sqrt(n_states)
        click.echo(
            f"{red_agent}: {gains.mean():+.2f} ± {interval:.2f} an episode of {N_STEPS} steps, all "
            f"cells together; {seconds:.2f} s a decision"
        )
        commonest = Counter((one.own, one.better) for one in found if one).most_common(5)
        for (own, better), count in commonest:
            click.echo(f"  {count} x {better} instead of {own}")


if __name__ == "__main__":
    main()
