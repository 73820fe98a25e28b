"""One step of policy iteration by search over the belief, learned by the network that it improves.

An agent is in few states: what Blue concludes is shown as bits, and a thousand or two are nearly
all that it meets. In each of the commonest, from several places where it met it, every other choice
that changes anything is tried in imagined episodes. Where one surely gains, it takes the place of
the agent's own; then the network learns both, by supervision: what it did, and what it should do.
(Expert iteration: Anthony, Tian and Barber 2017, "Thinking Fast and Slow with Deep Learning and
Tree Search", with rollouts in the place of the tree.) The same agent and seed give the same
weights, with any number of processes.

    python scripts/improve_by_search.py runs/champion/champion.npz improved.npz
"""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workflow_rl.portable  # isort: skip  # noqa: F401  # Before anything loads NumPy.

import numpy as np
import torch
from numpy.typing import NDArray

from agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.cage2.agent.action_sets import make_action_set
from workflow_rl.cage2.agent.rollouts import (
    CELLS,
    Believed,
    choices_of,
    imagined_rewards,
    load_searchable,
    that_matter,
)
from workflow_rl.cage2.agent.views import BeliefView, Bits
from workflow_rl.cage2.compiled.env_batch import CompiledEnvs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.selection import ATTACKERS, scores_of_episodes
from workflow_rl.commands.export import write_policy
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.output_files import require_writable
from workflow_rl.runs.checkpoint import CheckpointError

N_STEPS = len(CELLS)
N_PLACES = 12
"""At most, that a state is searched from. They differ, for its bits show neither the time nor all
that Blue believes: rollouts of few would say little, however many."""
SHARE_SEARCHED = 0.95
"""Of all steps, by the commonest states."""
# Rollouts of a choice in each round; the first two say which goes on, the last what it gains.
ROLLOUTS = (40, 240, 480)
N_LEFT = 4
"""Choices that the second round compares."""
SURELY = 2.0
"""Standard errors that a gain has to be above nothing."""
N_STEPS_OF_LEARNING, BATCH, LEARNING_RATE = 6000, 1024, 5e-4
LEAST_WEIGHT = 0.02


@dataclasses.dataclass
class State:
    """One that was met. choice: the agent's own. weight: steps in an episode of either attacker,
    times the cells that they count in. count: of all steps. places: some of where it was."""

    choice: int
    weight: float = 0.0
    count: int = 0
    places: list[Believed] = dataclasses.field(default_factory=list)


class Better(NamedTuple):
    """A choice, what it gains over the agent's own, and both by name."""

    choice: int
    gain: float
    own: str
    name: str


def meet(policy: PolicyParameters, environment: Cage2, n: int, seed: int) -> dict[bytes, State]:
    """What the greedy agent meets in n episodes against each attacker, by its bits.

    A state's places are a uniform sample: Vitter 1985, "Random Sampling with a Reservoir".
    """
    every = range(n * len(ATTACKERS))
    envs, view, states = CompiledEnvs(N_STEPS, len(every)), BeliefView(), dict[bytes, State]()
    action_set, random = make_action_set(environment.actions), np.random.default_rng(seed)
    specs = [
        episode_spec(seed, number, (ATTACKERS[number % len(ATTACKERS)],), SeedStream.SELECTION)
        for number in every
    ]
    obs = envs.reset(every, specs)
    shown = view.begin(every, obs)
    action_set.begin(every)
    opening = [ACTION_NAMES.index(name) for name in environment.opening]
    for t in range(N_STEPS):
        choices = choices_of(policy, shown)
        begins = t < len(opening)
        taken = np.full(len(every), opening[t]) if begins else action_set.chosen(every, choices)
        for env in () if begins else every:
            state = states.setdefault(shown[env].tobytes(), State(int(choices[env])))
            state.weight += CELLS[t] / n
            state.count += 1
            at = state.count - 1
            if at >= N_PLACES:
                at = int(random.integers(state.count))
            if at < N_PLACES:
                belief, hypotheses = view.beliefs[env].copy(), view.hypotheses[env].copy()
                state.places[at : at + 1] = [Believed(belief, hypotheses, obs[env].copy(), t)]
        obs = envs.step(every, taken).obs
        shown = view.after(every, taken, obs)
        action_set.after(every, taken)
    return states


def better_choice(
    numbered: tuple[int, State], policy: PolicyParameters, actions: str, n_steps: int, seed: int
) -> Better | None:
    """What surely gains in this state, in its attacker's cells together, as far as rollouts of so
    many steps show it."""
    number, state = numbered
    random = np.random.default_rng((seed, number))
    names: dict[int, str] = {}
    for place in state.places:
        matter = that_matter(actions, place)
        names |= {choice: ACTION_NAMES[action] for choice, action in matter.items()}

    def gains(choices: list[int], n_rollouts: int) -> NDArray[np.float64]:
        """Of each choice in each place, or in each rollout from the only one."""
        first, n = np.array([state.choice, *choices]), math.ceil(n_rollouts / len(state.places))
        returns = [
            imagined_rewards(policy, actions, place, first, len(cells), n, random) @ cells
            for place in state.places
            for cells in (CELLS[place.n_steps : place.n_steps + n_steps],)
        ]
        differences = [one[1:] - one[0] for one in returns]
        if len(differences) == 1:
            return np.asarray(differences[0])
        return np.stack([one.mean(axis=1) for one in differences], axis=1)

    def error(of: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(of.std(axis=-1, ddof=1) / math.sqrt(of.shape[-1]))

    left = [choice for choice in names if choice != state.choice]
    for n_rollouts, n_left in ((ROLLOUTS[0], N_LEFT), (ROLLOUTS[1], 1)):
        if not left:
            return None
        tried = gains(left, n_rollouts)
        hopeful = tried.mean(axis=1) + (error(tried) if n_left > 1 else -error(tried))
        ranked = np.argsort(-hopeful, kind="stable")[:n_left]
        left = [left[i] for i in ranked if hopeful[i] > 0]
    if not left:
        return None
    (judged,) = gains(left, ROLLOUTS[2])
    if judged.mean() <= SURELY * error(judged):
        return None
    # Once more, for what passed is what chance favoured too.
    gain = float(gains(left, ROLLOUTS[2]).mean())
    own = names.get(state.choice, "what changes nothing")
    return Better(left[0], gain, own, names[left[0]])


def learned(
    policy: PolicyParameters, states: Bits, choices: NDArray[np.int64], weights: NDArray[np.float64]
) -> PolicyParameters:
    """The policy, after it learned to choose so in states `[N, D]`, by the square root of the
    weights `[N]`: what is rare has to be learned too."""
    torch.set_num_threads(1)
    layers: list[torch.nn.Module] = []
    for weight, bias in zip(policy.weights, policy.biases, strict=True):
        linear = torch.nn.Linear(*weight.shape)
        linear.weight.data = torch.tensor(np.ascontiguousarray(weight.T))
        linear.bias.data = torch.tensor(bias)
        layers += [linear, torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers[:-1])
    x, y = torch.tensor(states, dtype=torch.float32), torch.tensor(choices)
    importance = torch.tensor(np.maximum(np.sqrt(weights), LEAST_WEIGHT), dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.01, N_STEPS_OF_LEARNING)
    generator = torch.Generator().manual_seed(0)
    for _ in tqdm(range(N_STEPS_OF_LEARNING), desc="learning", unit="step", disable=None):
        rows = torch.randint(len(x), (BATCH,), generator=generator)
        losses = torch.nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="none")
        optimizer.zero_grad()
        (losses * importance[rows]).mean().backward()
        optimizer.step()
        schedule.step()
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    return policy._replace(
        weights=tuple(np.ascontiguousarray(one.weight.detach().numpy().T) for one in linears),
        biases=tuple(one.bias.detach().numpy() for one in linears),
    )


def improve(
    policy: PolicyParameters, environment: Cage2, episodes: int, n_steps: int, jobs: int, seed: int
) -> PolicyParameters:
    """Search, and learn what was found; says what."""
    states = meet(policy, environment, episodes, seed)
    keys = sorted(states, key=lambda key: (-states[key].weight, key))
    shares = np.cumsum([states[key].weight for key in keys])
    searched = keys[: int(np.searchsorted(shares, SHARE_SEARCHED * shares[-1])) + 1]
    search = partial(
        better_choice, policy=policy, actions=environment.actions, n_steps=n_steps, seed=seed
    )
    numbered = [(number, states[key]) for number, key in enumerate(searched)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        results = pool.imap(search, numbered, chunksize=8)
        progress = tqdm(results, "searching", len(numbered), unit="state", disable=None)
        found = {key: one for key, one in zip(searched, progress, strict=True) if one is not None}
    kinds: dict[tuple[str, str], float] = {}
    for key, (_, gain, own, name) in found.items():
        kinds[own, name] = kinds.get((own, name), 0.0) + gain * states[key].count / episodes
    click.echo(
        f"{len(found)} of {len(searched)} states, of {len(states)} met, have a better choice, at "
        f"first order worth {sum(kinds.values()):+.2f} in all cells together:"
    )
    for (own, name), gain in sorted(kinds.items(), key=lambda item: -item[1])[:8]:
        click.echo(f"  {gain:+.3f} {name} instead of {own}")
    choices = [found[key].choice if key in found else states[key].choice for key in keys]
    bits = np.array([np.frombuffer(key, np.uint8) for key in keys])
    weights = np.array([states[key].weight for key in keys])
    return learned(policy, bits, np.array(choices), weights)


@click.command(help=__doc__)
@click.argument("agent", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--episodes", default=2000, show_default=True, type=click.IntRange(1),
              help="Against each attacker, in which it meets what is searched.")  # fmt: skip
@click.option(
    "--steps", default=35, show_default=True, type=click.IntRange(1), help="Of a rollout."
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--judges", default=8000, show_default=True, type=click.IntRange(2),
              help="Episodes against each attacker that show what it came to.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
def main(
    agent: Path, output: Path, episodes: int, steps: int, jobs: int, judges: int, seed: int
) -> None:
    """Improve, write, and compare."""
    if output.suffix != ".npz":
        raise click.BadParameter(f"{output} is not a file like agent.npz", param_hint="OUTPUT")
    try:
        before, environment = load_searchable(agent)
    except CheckpointError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    if before.activation != "tanh":
        raise click.BadParameter(f"{agent} is no network of tanh", param_hint="AGENT")
    require_writable(output, "OUTPUT")
    after = improve(before, environment, episodes, steps, jobs, seed)
    write_policy(after, environment, output)
    total = np.zeros((2, judges))
    # On episodes of another seed than those searched; the selection's is 0.
    for red_agent in ATTACKERS:
        for row, parameters in zip(total, (before, after), strict=True):
            actor = NumpyPolicy(parameters, greedy=True)
            row += scores_of_episodes(actor, environment, red_agent, judges, seed + 1).sum(1)
    difference = total[1] - total[0]
    click.echo(
        f"{output}: {total[1].mean():.2f}, before {total[0].mean():.2f}: "
        f"{difference.mean():+.2f} ± {1.96 * difference.std() / math.sqrt(judges):.2f}, in "
        f"{judges} episodes against each attacker"
    )


if __name__ == "__main__":
    main()
