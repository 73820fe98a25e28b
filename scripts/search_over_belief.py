"""What a search over Blue's belief would add to an agent: rollouts of every action that matters.

Of episodes of the compiled simulator, one step each is looked at: the agent goes on from there in
imagined episodes, first with its own choice and then with every other that changes anything, always
with the same draws. What is better by half of the rollouts is judged by the other half, so that
chance does not look like gain. Summed over an episode's steps that is, to first order, what
deviating whenever it pays adds to the cells' total; the nine cells' horizons count, so that Blue
knows the time, which the agent does not.

    python scripts/search_over_belief.py champion --states 300
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.numpy_policy import PolicyParameters
from workflow_rl.cage2.action_sets import make_action_set
from workflow_rl.cage2.compiled.env_batch import CompiledEnvs
from workflow_rl.cage2.compiled.tables import ACTION_HOST, ACTION_KIND, REMOVE, RESTORE
from workflow_rl.cage2.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS
from workflow_rl.cage2.search import Believed, choices_of, imagined_rewards
from workflow_rl.cage2.selection import ATTACKERS
from workflow_rl.cage2.views import BeliefView
from workflow_rl.collection.episode import SeedStream, episode_spec
from workflow_rl.training.checkpoint import CheckpointError
from workflow_rl.training.saved_agent import load_saved

N_STEPS = max(HORIZONS)
# In how many cells a step counts.
CELLS = np.array([sum(t < horizon for horizon in HORIZONS) for t in range(N_STEPS)], float)
LEAST_PROBABILITY = 0.005
"""That Red is on a host, for Remove and Restore to be tried there."""
SEED = 154
"""Of the episodes: nothing was trained or chosen on these."""


class Found(NamedTuple):
    """The agent's choice, the best other one, and what that gains, by the other rollouts."""

    own: str
    better: str
    gain: float


def states(
    policy: PolicyParameters, environment: Cage2, red_agent: str, n: int, at: NDArray[np.int64]
) -> list[tuple[int, Believed, int]]:
    """Of `n` episodes one step each, `at` [n]: the step, what Blue believes, and its choice."""
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
            found.append((t, Believed(belief, hypotheses, obs[env].copy()), int(choices[env])))
        taken = np.full(n, opening[t]) if t < len(opening) else action_set.chosen(every, choices)
        obs = envs.step(every, taken).obs
        shown = view.after(every, taken, obs)
        action_set.after(every, taken)
    return found


def that_matter(actions: str, where: Believed) -> dict[int, int]:
    """Choices that change anything, and the environment's action that each is; Sleep, which stands
    for all that change nothing, is 0."""
    action_set = make_action_set(actions)
    choices = np.arange(action_set.n)
    decoys = where.belief["decoys"].astype(np.int64)
    action_set.begin(choices.tolist(), decoys)
    taken = action_set.chosen(choices.tolist(), choices)
    n = int(where.belief["n_hypotheses"])
    there = where.hypotheses["sessions"][:n, None] >> np.arange(len(HOSTS)) & 1
    probability = where.belief["probability"][:n] @ there
    matter = {int(choices[taken == 0][0]): 0}
    for choice, action in zip(choices.tolist(), taken.tolist(), strict=True):
        kind, host = ACTION_KIND[action], ACTION_HOST[action]
        if kind in (REMOVE, RESTORE):
            if probability[host] > LEAST_PROBABILITY:
                matter[choice] = action
        elif ACTION_NAMES[action].startswith("Decoy"):
            matter[choice] = action
    return matter


def look(
    policy: PolicyParameters,
    actions: str,
    state: tuple[int, Believed, int],
    n_rollouts: int,
    n_steps: int,
    random: np.random.Generator,
) -> Found | None:
    """The deviation that pays by more than its standard error in half of the rollouts, if any."""
    t, where, own = state
    matter = that_matter(actions, where)
    others = [choice for choice in matter if choice != own]
    first = np.array([own, *others])
    counts = np.zeros(n_steps)
    counts[: len(CELLS) - t] = CELLS[t : t + n_steps]
    rewards = imagined_rewards(policy, actions, where, first, n_steps, 2 * n_rollouts, random)
    gains = (rewards[1:] - rewards[0]) @ counts
    chosen_by, judged_by = gains[:, :n_rollouts], gains[:, n_rollouts:]
    surely = chosen_by.mean(axis=1) - chosen_by.std(axis=1) / np.sqrt(n_rollouts)
    best = int(surely.argmax())
    if surely[best] <= 0:
        return None
    name = ACTION_NAMES[matter[own]] if own in matter else "nothing"
    return Found(name, ACTION_NAMES[matter[others[best]]], float(judged_by[best].mean()))


@click.command(help=__doc__)
@click.argument("agent", type=click.Path(path_type=Path))
@click.option("--states", "n_states", default=300, show_default=True, type=click.IntRange(2))
@click.option("--rollouts", default=200, show_default=True, type=click.IntRange(2),
              help="That choose a deviation; as many judge it.")  # fmt: skip
@click.option("--steps", default=35, show_default=True, type=click.IntRange(1, N_STEPS),
              help="Of each rollout.")  # fmt: skip
@click.option("--seed", default=0, show_default=True)
def main(agent: Path, n_states: int, rollouts: int, steps: int, seed: int) -> None:
    """Against both attackers."""
    try:
        policy, environment = load_saved(agent)
    except CheckpointError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    if not isinstance(environment, Cage2) or environment.observation != "belief":
        raise click.BadParameter(f"{agent} does not act on a belief", param_hint="AGENT")
    n_before = len(environment.opening)
    for red_agent in ATTACKERS:
        random = np.random.default_rng(seed)
        at = random.integers(n_before, N_STEPS, n_states)
        start, found = time.perf_counter(), list[Found | None]()
        looked_at = states(policy.parameters, environment, red_agent, n_states, at)
        for state in tqdm(looked_at, desc=red_agent, unit="state", disable=None):
            found.append(
                look(policy.parameters, environment.actions, state, rollouts, steps, random)
            )
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
