"""What actions are worth, by rollouts from what Blue believes: what a search over its belief needs.

Rollouts of a policy from hypotheses drawn by their probability, as in Tesauro and Galperin 1996,
"On-line Policy Improvement using Monte-Carlo Search". All actions are tried with the same draws, so
that their difference has less noise than their returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from agents.policies.networks import ACTIVATIONS
from agents.policies.numpy_policy import PolicyParameters
from workflow_rl.cage2.agent.action_sets import make_action_set
from workflow_rl.cage2.agent.views import Bits
from workflow_rl.cage2.compiled.blue_belief import N_HYPOTHESES, N_SHOWN
from workflow_rl.cage2.compiled.imagined import REST, imagine_steps
from workflow_rl.cage2.compiled.tables import ACTION_HOST, ACTION_KIND, ANALYSE, REMOVE, RESTORE
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS
from workflow_rl.cage2.scoring.evaluation import load_trained
from workflow_rl.cage2.scoring.selection import ATTACKERS

CELLS = np.array([sum(t < horizon for horizon in HORIZONS) for t in range(max(HORIZONS))], float)
"""In how many of an attacker's cells each step of an episode counts, `[100]`."""
SLEEP = ACTION_NAMES.index("Sleep")
LEAST_PROBABILITY = 0.005
"""That Red is on a host, for Remove and Restore to be tried there; and that Blue is wrong about
malware there, for Analyse."""


class Believed(NamedTuple):
    """Where an episode is, as far as Blue knows: a record of `blue_belief.BELIEF`, its hypotheses
    `[N_HYPOTHESES]`, the 52 bits it sees, and how many steps have been."""

    belief: Any
    hypotheses: NDArray[Any]
    obs: Bits
    n_steps: int


def load_searchable(path: Path) -> tuple[PolicyParameters, Cage2]:
    """An agent that can be searched with, and its environment. Raises CheckpointError."""
    from workflow_rl.runs.checkpoint import CheckpointError

    policy, environment = load_trained(path)
    parameters = policy.parameters
    if not isinstance(environment, Cage2) or environment.observation != "belief":
        raise CheckpointError(f"{path} does not act on a belief")
    if parameters.network != "mlp" or parameters.obs_mean is not None:
        raise CheckpointError(f"{path} does not see bits as they are")
    if environment.max_steps != max(HORIZONS) or not set(ATTACKERS) <= set(environment.variants):
        raise CheckpointError(f"{path} was not trained for all cells")
    if len(environment.opening) >= min(HORIZONS):
        raise CheckpointError(f"{path} chooses nothing in the cells of {min(HORIZONS)} steps")
    return parameters, environment


def choices_of(policy: PolicyParameters, shown: Bits) -> Actions:
    """The likeliest choice for each of `[N, D]`, of an MLP that sees bits as they are; unlike an
    Actor's not the same bit for bit for any N."""
    assert policy.network == "mlp"
    assert policy.obs_mean is None
    hidden = shown.astype(np.float32)
    for weight, bias in zip(policy.weights[:-1], policy.biases[:-1], strict=True):
        hidden = ACTIVATIONS[policy.activation](hidden @ weight + bias)
    logits = hidden @ policy.weights[-1] + policy.biases[-1]
    return np.asarray(logits.argmax(axis=1))


def imagined_rewards(
    policy: PolicyParameters,
    actions: str,
    where: Believed,
    first: Actions,
    n_steps: int,
    n_rollouts: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Rewards [K, n_rollouts, n_steps] if Blue goes on with each of K choices, and then greedily
    with the policy, which chooses from an action set of `ACTION_SETS`.

    The OT service is taken to run, and not to have been restored before.
    """
    n = len(first) * n_rollouts
    n_hypotheses = int(where.belief["n_hypotheses"])
    likely = where.belief["probability"][:n_hypotheses]
    drawn = random.choice(n_hypotheses, n_rollouts, p=likely / likely.sum())
    truths = np.tile(where.hypotheses[drawn], len(first))
    beliefs = np.repeat(where.belief[None], n)
    hypotheses = np.broadcast_to(where.hypotheses, (n, N_HYPOTHESES)).copy()
    rest = np.zeros(n, REST)
    bits = where.obs.reshape(len(HOSTS), 4).astype(np.uint32)
    rest["compromise"] = ((bits[:, 2] | bits[:, 3] << 1) << 2 * np.arange(len(HOSTS))).sum()
    rest["ot_running"] = rest["ot_can_stop"] = True
    action_set, envs = make_action_set(actions), range(n)
    action_set.begin(envs, beliefs["decoys"].astype(np.int64), where.n_steps)
    shown = np.empty((n, N_SHOWN), np.uint8)
    rewards = np.empty((n_steps, n))
    choices = np.repeat(first, n_rollouts)
    for t in range(n_steps):
        uniform = np.tile(random.random((n_rollouts, 2)), (len(first), 1))
        taken = action_set.chosen(envs, choices)
        imagine_steps(truths, beliefs, hypotheses, rest, taken, uniform, rewards[t], shown)
        action_set.after(envs, taken)
        choices = choices_of(policy, shown)
    return rewards.T.reshape(len(first), n_rollouts, n_steps)


def that_matter(actions: str, where: Believed) -> dict[int, int]:
    """Choices that change anything, if only what Blue believes, and the environment's action that
    each is; and Sleep, which stands for all others."""
    action_set = make_action_set(actions)
    every = range(action_set.n)
    action_set.begin(every, where.belief["decoys"].astype(np.int64), where.n_steps)
    taken = action_set.chosen(every, np.arange(action_set.n)).tolist()
    n = int(where.belief["n_hypotheses"])

    def likely(field: str) -> NDArray[np.float64]:
        is_so = where.hypotheses[field][:n, None] >> np.arange(len(HOSTS)) & 1
        return np.asarray(where.belief["probability"][:n] @ is_so)

    is_there, has_malware = likely("sessions"), likely("has_malware")
    unsure = np.minimum(has_malware, 1 - has_malware)

    def matters(action: int) -> bool:
        kind, host = ACTION_KIND[action], ACTION_HOST[action]
        if kind == ANALYSE:
            return bool(unsure[host] > LEAST_PROBABILITY)
        if kind in (REMOVE, RESTORE):
            return bool(is_there[host] > LEAST_PROBABILITY)
        return ACTION_NAMES[action].startswith("Decoy")

    # Where a host has no decoy left to set up, that choice sleeps too.
    sleep = taken.index(SLEEP)
    return {
        choice: action for choice, action in enumerate(taken) if choice == sleep or matters(action)
    }
