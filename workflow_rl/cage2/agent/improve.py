"""One step of policy iteration by search over Blue's belief, learned by the same network.

An agent meets few states: what Blue concludes is shown as bits, and one or two thousand bit
patterns cover nearly all steps. In each of the commonest states, from several places where the
agent met it, the search tries every choice that changes anything in imagined episodes. A choice
that surely gains replaces the agent's own. Then the network learns all choices by supervision.

Source: expert iteration (Anthony, Tian and Barber 2017, "Thinking Fast and Slow with Deep Learning
and Tree Search"), with rollouts instead of a tree. The same agent and seed give the same weights,
with any number of processes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.cage.processes import in_processes
from workflow_rl.cage2.agent import rollouts
from workflow_rl.cage2.agent.views import Bits
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.selection import ATTACKERS, scores_of_episodes
from workflow_rl.runs.intervals import mean_of

N_PLACES = 12
"""Largest number of places that a state is searched from. The places differ, since the bits show
neither the time nor all that Blue believes: many rollouts of few places would say little."""
SHARE_SEARCHED = 0.95
"""Share of all steps whose states are searched, the commonest states first."""
ROLLOUTS = (40, 240, 480)
"""Rollouts of a choice in each round. Two rounds choose, the last one measures the gain."""
N_LEFT = 4
"""Choices that the second round compares."""
SURELY = 2.0
"""A gain counts if it exceeds this many standard errors."""
N_STEPS_OF_LEARNING, BATCH, LEARNING_RATE = 6000, 1024, 5e-4
LEAST_WEIGHT = 0.02


@dataclasses.dataclass
class State:
    """A state that the agent met.

    choice: the agent's own. weight: steps in an episode of either attacker, times the cells in
    which they count. count: all steps in the state. places: a sample of where the agent met it.
    """

    choice: int
    weight: float = 0.0
    count: int = 0
    places: list[rollouts.Believed] = dataclasses.field(default_factory=list)


class Better(NamedTuple):
    """A choice, its gain over the agent's own choice, and the names of both."""

    choice: int
    gain: float
    before: str
    name: str


class Improved(NamedTuple):
    """An improved policy. gains: what each replacement (own choice, better choice) is worth in all
    cells together, at first order."""

    policy: PolicyParameters
    n_met: int
    n_searched: int
    n_better: int
    gains: Mapping[tuple[str, str], float]


class Judgement(NamedTuple):
    """Mean scores of two agents on the same episodes, and the 95% interval of the difference."""

    before: float
    after: float
    interval_95: float


def meet(policy: PolicyParameters, environment: Cage2, n: int, seed: int) -> dict[bytes, State]:
    """Return the states, by their bits, that the greedy agent meets in n episodes per attacker.

    The places of a state are a uniform sample: Vitter 1985, "Random Sampling with a Reservoir".
    """
    red_agents = [ATTACKERS[number % len(ATTACKERS)] for number in range(n * len(ATTACKERS))]
    watched = rollouts.Watched(policy, environment, red_agents, seed)
    states, random = dict[bytes, State](), np.random.default_rng(seed)
    for t in range(watched.t, len(rollouts.CELLS)):
        for env in range(len(red_agents)):
            key = watched.shown[env].tobytes()
            state = states.setdefault(key, State(int(watched.choices[env])))
            state.weight += rollouts.CELLS[t] / n
            state.count += 1
            at = state.count - 1
            if at >= N_PLACES:
                at = int(random.integers(state.count))
            if at < N_PLACES:
                state.places[at : at + 1] = [watched.place(env)]
        watched.step()
    return states


def better_choice(
    numbered: tuple[int, State], policy: PolicyParameters, actions: str, n_steps: int, seed: int
) -> Better | None:
    """Return the choice that surely gains most in a state, as far as rollouts of n_steps show it.

    The gain is that of the attacker's cells together. numbered: the state and its number, from
    which its random draws follow.
    """
    number, state = numbered
    random = np.random.default_rng((seed, number))
    names: dict[int, str] = {}
    for place in state.places:
        matter = rollouts.that_matter(actions, place)
        names |= {choice: ACTION_NAMES[action] for choice, action in matter.items()}

    def gains(choices: list[int], n_rollouts: int) -> NDArray[np.float64]:
        """Return the gains of each choice in each place, or in each rollout from a single place."""
        n = math.ceil(n_rollouts / len(state.places))
        differences = [
            rollouts.imagined_gains(
                policy, actions, place, state.choice, choices, n_steps, n, random
            )
            for place in state.places
        ]
        if len(differences) == 1:
            return differences[0]
        return np.stack([difference.mean(axis=1) for difference in differences], axis=1)

    def error(of: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(of.std(axis=-1, ddof=1) / math.sqrt(of.shape[-1]))

    choices = [choice for choice in names if choice != state.choice]
    for n_rollouts, n_left in ((ROLLOUTS[0], N_LEFT), (ROLLOUTS[1], 1)):
        if not choices:
            return None
        tried = gains(choices, n_rollouts)
        hopeful = tried.mean(axis=1) + (error(tried) if n_left > 1 else -error(tried))
        ranked = np.argsort(-hopeful, kind="stable")[:n_left]
        choices = [choices[i] for i in ranked if hopeful[i] > 0]
    if not choices:
        return None
    (judged,) = gains(choices, ROLLOUTS[2])
    if judged.mean() <= SURELY * error(judged):
        return None
    # The gain is measured again, because chance favoured what passed the test.
    gain = float(gains(choices, ROLLOUTS[2]).mean())
    return Better(
        choices[0], gain, names.get(state.choice, "what changes nothing"), names[choices[0]]
    )


def learned(
    policy: PolicyParameters, states: Bits, choices: NDArray[np.int64], weights: NDArray[np.float64]
) -> PolicyParameters:
    """Return the policy after it learned these choices `[N]` in states `[N, D]`.

    Each state counts by the square root of its weight `[N]`: rare states have to be learned too.
    """
    import torch

    from workflow_rl.agents.ppo.adam import FusedAdam

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
    optimizer = FusedAdam(network.parameters(), LEARNING_RATE, 1e-8)
    generator = torch.Generator().manual_seed(0)
    for step in tqdm(range(N_STEPS_OF_LEARNING), desc="learning", unit="step", disable=None):
        optimizer.learning_rate = LEARNING_RATE * (1 - 0.99 * step / N_STEPS_OF_LEARNING)
        rows = torch.randint(len(x), (BATCH,), generator=generator)
        losses = torch.nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="none")
        optimizer.zero_grad()
        (losses * importance[rows]).mean().backward()
        optimizer.step()
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    return policy._replace(
        weights=tuple(np.ascontiguousarray(linear.weight.detach().numpy().T) for linear in linears),
        biases=tuple(linear.bias.detach().numpy() for linear in linears),
    )


def improved(
    policy: PolicyParameters, environment: Cage2, episodes: int, n_steps: int, jobs: int, seed: int
) -> Improved:
    """Return the policy after one step of search and learning.

    episodes: games against each attacker in which the agent meets what is searched. n_steps: length
    of a rollout. jobs: processes.
    """
    states = meet(policy, environment, episodes, seed)
    keys = sorted(states, key=lambda key: (-states[key].weight, key))
    shares = np.cumsum([states[key].weight for key in keys])
    searched = keys[: int(np.searchsorted(shares, SHARE_SEARCHED * shares[-1])) + 1]
    search = partial(
        better_choice, policy=policy, actions=environment.actions, n_steps=n_steps, seed=seed
    )
    numbered = [(number, states[key]) for number, key in enumerate(searched)]
    results = in_processes(search, numbered, jobs)
    progress = tqdm(results, "searching", len(numbered), unit="state", disable=None)
    found = {
        key: better for key, better in zip(searched, progress, strict=True) if better is not None
    }
    gains: dict[tuple[str, str], float] = {}
    for key, (_, gain, before, name) in found.items():
        gains[before, name] = gains.get((before, name), 0.0) + gain * states[key].count / episodes
    choices = [found[key].choice if key in found else states[key].choice for key in keys]
    bits = np.array([np.frombuffer(key, np.uint8) for key in keys])
    weights = np.array([states[key].weight for key in keys])
    after = learned(policy, bits, np.array(choices), weights)
    return Improved(after, len(states), len(searched), len(found), gains)


def compared(
    before: PolicyParameters, after: PolicyParameters, environment: Cage2, episodes: int, seed: int
) -> Judgement:
    """Compare two policies on `episodes` (at least 2) episodes against each attacker.

    The episodes are none of those that a search with this seed has seen.
    """
    total = np.zeros((2, episodes))
    for red_agent in ATTACKERS:
        for row, parameters in zip(total, (before, after), strict=True):
            actor = NumpyPolicy(parameters, greedy=True)
            row += scores_of_episodes(actor, environment, red_agent, episodes, seed + 1).sum(1)
    interval = mean_of([total[1] - total[0]]).interval_95
    return Judgement(float(total[0].mean()), float(total[1].mean()), interval)
