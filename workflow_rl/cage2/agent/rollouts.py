"""What actions are worth, by rollouts from what Blue believes.

A rollout plays a policy from a hypothesis that is drawn by its probability, as in Tesauro and
Galperin 1996, "On-line Policy Improvement using Monte-Carlo Search". All actions are tried with the
same draws, so that their difference has less noise than their returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.network import ACTIVATIONS
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.cage2.agent.action_sets import make_action_set
from workflow_rl.cage2.agent.views import TABLE_SIZE, BeliefView, Bits
from workflow_rl.cage2.compiled.blue_belief import N_HYPOTHESES, N_SHOWN
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.imagined import REST, imagine_steps
from workflow_rl.cage2.compiled.simulator import CompiledEnvs
from workflow_rl.cage2.compiled.tables import ANALYSE, REMOVE, RESTORE
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.viewed_envs import ViewedEnvs
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS
from workflow_rl.cage2.scoring.players import load_trained
from workflow_rl.cage2.scoring.selection import ATTACKERS
from workflow_rl.environments.episode import SeedStream, episode_spec

CELLS = np.array([sum(t < horizon for horizon in HORIZONS) for t in range(max(HORIZONS))], float)
"""The number of an attacker's cells in which each step of an episode counts, `[100]`."""
SLEEP = ACTION_NAMES.index("Sleep")
LEAST_PROBABILITY = 0.005
"""Remove and Restore are tried where Red is present with at least this probability, and Analyse
where Blue is wrong about malware with at least this probability."""


class Believed(NamedTuple):
    """A moment of an episode as far as Blue knows it.

    belief: a record of `blue_belief.BELIEF`. hypotheses: `[N_HYPOTHESES]`. obs: the 52 bits that
    Blue sees. n_steps: steps of the episode so far.
    """

    belief: Any
    hypotheses: NDArray[Any]
    obs: Bits
    n_steps: int


class Watched:
    """Episodes of a greedy agent after its opening, one against each red agent, step by step.

    Attributes:
        t: the number of steps so far, those of the opening included.
        shown: uint8 `[N, D]`, what the policy sees.
        choices: `[N]`, what the policy chooses.
    """

    def __init__(
        self, policy: PolicyParameters, environment: Cage2, red_agents: Sequence[str], seed: int
    ) -> None:
        self._policy, self._every = policy, range(len(red_agents))
        envs = CompiledEnvs(len(CELLS), len(red_agents))
        self._envs = ViewedEnvs(envs, "belief", environment.actions, environment.opening)
        specs = [
            episode_spec(seed, number, (red_agent,), SeedStream.SELECTION)
            for number, red_agent in enumerate(red_agents)
        ]
        self.t = len(environment.opening)
        self._see(self._envs.reset(self._every, specs))

    def place(self, env: int) -> Believed:
        """Return a copy of the moment in an env."""
        view = self._envs.view
        assert isinstance(view, BeliefView)
        belief, hypotheses = view.beliefs[env].copy(), view.hypotheses[env].copy()
        return Believed(belief, hypotheses, self.shown[env, :TABLE_SIZE].copy(), self.t)

    def step(self) -> None:
        """Play one step in every env."""
        self._see(self._envs.step(self._every, self.choices).obs)
        self.t += 1

    def _see(self, shown: Bits) -> None:
        self.shown = shown
        self.choices = chosen_in(self._policy, shown)


def load_searchable(path: Path) -> tuple[PolicyParameters, Cage2]:
    """Return an agent that a search can start from, and its environment. Raises CheckpointError."""
    from workflow_rl.runs.checkpoint import CheckpointError

    policy, environment = load_trained(path)
    parameters = policy.parameters
    if not isinstance(environment, Cage2) or environment.observation != "belief":
        raise CheckpointError(f"{path} does not act on a belief")
    if environment.env_id != Cage2.env_id:
        raise CheckpointError(f"{path} is of {environment.env_id}: a search needs {Cage2.env_id}")
    if not environment.network.is_scenario2:
        raise CheckpointError(f"{path} was trained in {environment.network}, not in scenario2")
    if parameters.network != "mlp" or parameters.obs_mean is not None or parameters.masked:
        raise CheckpointError(f"{path} does not see bits as they are")
    if environment.max_steps != max(HORIZONS) or not set(ATTACKERS) <= set(environment.variants):
        raise CheckpointError(f"{path} was not trained for all cells")
    if len(environment.opening) >= min(HORIZONS):
        raise CheckpointError(f"{path} chooses nothing in the cells of {min(HORIZONS)} steps")
    return parameters, environment


def chosen_in(policy: PolicyParameters, shown: Bits) -> Actions:
    """Return the likeliest choice `[N]` for each row of `[N, D]`, of an MLP that sees plain bits.

    Unlike an Actor's, a choice may depend on N where logits are nearly equal.
    """
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
    """Return rewards [K, n_rollouts, n_steps] of Blue's K first choices, followed by the policy.

    The policy plays greedily and chooses from the action set `actions`, one of
    `env.arguments.ACTION_SETS`. The rollouts assume that the OT service runs, and that Blue has not
    restored it before.
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
    rest["compromise"][:, 0] = ((bits[:, 2] | bits[:, 3] << 1) << 2 * np.arange(len(HOSTS))).sum()
    rest["ot_running"][:] = True
    rest["ot_can_stop"] = True
    action_set, envs = make_action_set(actions), range(n)
    action_set.begin(envs, beliefs["decoys"].astype(np.int64), where.n_steps)
    shown = np.empty((n, N_SHOWN), np.uint8)
    rewards = np.empty((n_steps, n))
    choices = np.repeat(first, n_rollouts)
    for t in range(n_steps):
        uniform = np.tile(random.random((n_rollouts, 2)), (len(first), 1))
        taken = action_set.chosen(envs, choices)
        imagine_steps(
            truths, SCENARIO2.record, beliefs, hypotheses, rest, taken, uniform, rewards[t], shown
        )
        action_set.after(envs, taken)
        choices = chosen_in(policy, shown)
    return rewards.T.reshape(len(first), n_rollouts, n_steps)


def imagined_gains(
    policy: PolicyParameters,
    actions: str,
    where: Believed,
    choice: int,
    others: Sequence[int],
    n_steps: int,
    n_rollouts: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the gains [K, n_rollouts] of K other choices over the agent's own.

    A gain is a difference of returns, with each step weighted by the cells in which it counts. A
    rollout has n_steps steps, or as many as are left of the episode.
    """
    cells = CELLS[where.n_steps : where.n_steps + n_steps]
    first = np.array([choice, *others])
    returns = (
        imagined_rewards(policy, actions, where, first, len(cells), n_rollouts, random) @ cells
    )
    return np.asarray(returns[1:] - returns[0])


def that_matter(actions: str, where: Believed) -> dict[int, int]:
    """Return the choices that change anything, if only what Blue believes, with their actions.

    Sleep stands for all choices that change nothing. Actions are indices into ACTION_NAMES.
    """
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
        kind, host = SCENARIO2.of["action_kind"][action], SCENARIO2.of["action_host"][action]
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
