"""Episodes of the champion's networks on the compiled simulator, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent import batched
from workflow_rl.cage4.agent.batched import Decisions
from workflow_rl.cage4.agent.champion import TeamWeights
from workflow_rl.cage4.agent.memory import END, MEMORY, N_AGENTS, N_HOSTS
from workflow_rl.cage4.agent.privileged import look
from workflow_rl.cage4.agent.rules import BatchedRuleTeam
from workflow_rl.cage4.agent.views import N_SEEN, on_hosts
from workflow_rl.cage4.compiled.simulator import BatchedSimulator

KEPT = 0.15
"""The share of the decisions to wait that are learned from. Each counts for all."""
AT_ONCE = 125


class Episodes(NamedTuple):
    """N episodes of T = 498 steps.

    totals: `[N]`, sums of the team's rewards. seen: `[T + 1, N, 5, 20]`, what the critics see.
    rewards: `[T, N, 5]`, each agent's own. rooms: the decisions of the two networks.
    """

    totals: NDArray[np.float64]
    seen: NDArray[np.float32]
    rewards: NDArray[np.float32]
    rooms: tuple[Decisions, Decisions]


def play_seeds(
    weights: TeamWeights, seeds: Sequence[int], mode: int, kept: float = KEPT
) -> Episodes:
    """Play an episode of each seed.

    mode: one of batched.GREEDY, SAMPLED and TAUGHT. In the last, the team of rules plays.
    """
    n = len(seeds)
    simulator, teacher = BatchedSimulator(n), BatchedRuleTeam()
    rooms = batched.decision_room(450 * n, N_HOSTS), batched.decision_room(250 * n, 3 * N_HOSTS)
    seen = np.zeros((END + 1, n, N_AGENTS, N_SEEN), np.float32)
    rewards = np.zeros((END, n, N_AGENTS), np.float32)
    memories, actions = np.zeros(n, MEMORY), np.zeros((n, N_AGENTS), np.int64)
    obs, totals = simulator.reset(seeds), np.zeros(n)
    batched.begin_all(memories, simulator.masks)
    teacher.reset(simulator.masks)
    for step in range(END):
        taught = teacher.act(obs) if mode == batched.TAUGHT else actions
        batched.decide(memories, obs, weights, mode, taught, kept, rooms, actions)
        if mode == batched.TAUGHT:
            actions[:] = taught
        obs, gained, _ = simulator.step(actions)
        totals += gained.sum(1)
        look(simulator.states, on_hosts("Restore", actions)[0], seen[step + 1], rewards[step])
    if any(room.n[0] == len(room.log_prob) for room in rooms):
        raise RuntimeError(f"{n} episodes have more decisions than there is room for")
    return Episodes(totals, seen, rewards, rooms)


class BatchedChampionTeam:
    """It plays N episodes at once. The networks do what they like best."""

    def __init__(self, weights: TeamWeights) -> None:
        self._weights = weights
        self._rooms = batched.decision_room(1, N_HOSTS), batched.decision_room(1, 3 * N_HOSTS)

    def reset(self, masks: NDArray[np.bool_]) -> None:
        """Begin N episodes. masks: bool `[N, 570]`."""
        self._memories = np.zeros(len(masks), MEMORY)
        batched.begin_all(self._memories, masks)

    def act(self, observations: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return actions `[N, 5]`. observations: int8 `[N, 578]`."""
        actions = np.zeros((len(observations), N_AGENTS), np.int64)
        batched.decide(
            *(self._memories, observations, self._weights, batched.GREEDY),
            *(actions, -1.0, self._rooms, actions),
        )
        return actions


def totals_of(weights: TeamWeights, seeds: Sequence[int]) -> NDArray[np.float64]:
    """Return the total reward of an episode of each seed."""
    team, totals = BatchedChampionTeam(weights), []
    for start in range(0, len(seeds), AT_ONCE):
        chosen = seeds[start : start + AT_ONCE]
        simulator = BatchedSimulator(len(chosen))
        obs, total = simulator.reset(chosen), np.zeros(len(chosen))
        team.reset(simulator.masks)
        for _ in range(END):
            obs, gained, _ = simulator.step(team.act(obs))
            total += gained.sum(1)
        totals.append(total)
    return np.concatenate(totals)
