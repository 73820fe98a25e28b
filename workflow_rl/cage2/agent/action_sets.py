"""What Blue's policy chooses from: all actions of the environment, or fewer that are as good."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage2.agent.network_facts import (
    BlueDecoys,
    Indices,
    NetworkFacts,
    likeliest_decoys,
    with_rows,
)
from workflow_rl.cage2.scenario.actions import BY_HOST, NEXT_DECOY
from workflow_rl.cage2.scenario2 import HORIZONS

LATE = {30: 5, 50: 3, 100: 12}
"""For each horizon: the number of its last steps in which restoring a user's host does not pay, if
all horizons count. Found by trials, see docs/explanations/champion.md."""


class ActionSet:
    """One of `env.arguments.ACTION_SETS`, in several envs, which are numbered from 0.

    `all` has every action. `by-host` has Sleep, and BY_HOST on each host: NEXT_DECOY sets up the
    next possible decoy, in the order in which Red falls for them, and sleeps where there is none.
    With `by-host-timed`, Restore becomes Remove where a horizon of the challenge is so near that
    Restore saves less than it costs: see LATE. A policy that is not told of the network has no
    choice on hosts that Red cannot take; another policy has choices on all hosts, with masks. A set
    has to be told every step.

    playing: see `BlueDecoys`. names: of the n choices. has_masks: whether some are impossible at
    times.
    """

    def __init__(self, name: str, facts: NetworkFacts, playing: Indices | None = None) -> None:
        self.has_masks, self._decoys = facts.are_told, BlueDecoys(facts, playing)
        if name == "all":
            self.names, is_open = facts.named, facts.exists
        else:
            is_open = facts.contested
            listed = np.arange(facts.n_hosts) if facts.are_told else np.flatnonzero(is_open[0])
            hosts = [facts.host_names[host] for host in listed]
            self.names = ("Sleep", *(f"{kind} {host}" for kind in BY_HOST for host in hosts))
        self.n = len(self.names)
        numbers = {action: number for number, action in enumerate(facts.named)}
        self._sleep = numbers["Sleep"]
        # A choice of a kind that Blue has nowhere stands for Sleep, and its mask is 0.
        self._actions = np.array([numbers.get(choice, self._sleep) for choice in self.names])
        split = [choice.partition(" ") for choice in self.names]
        self._is_next = np.array([kind == NEXT_DECOY for kind, _, _ in split])
        self._hosts = np.array([facts.host_names.index(h) if h else 0 for _, _, h in split])
        on_host = np.array([host != "" for _, _, host in split])
        can = np.array([facts.can_do(kind) for kind, _, _ in split]).T
        self._masks = (can & (~on_host | is_open[:, self._hosts])).astype(np.uint8)
        self._decoy_actions = np.array(
            [
                [numbers.get(f"{decoy} {host}", self._sleep) for host in facts.host_names]
                for decoy in facts.decoy_kinds
            ]
        )
        self._knows_no_kinds = facts.is_misinforming
        self._instead = _by_the_clock(facts.named) if name == "by-host-timed" else None
        self._n_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int]) -> None:
        """Begin episodes in M envs."""
        self._decoys.begin(envs)
        self._n_steps = with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = 0

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Return Blue's actions, by index, for the policy's choices in M envs."""
        actions, hosts = self._actions[choices], self._hosts[choices]
        if self._is_next.any():
            useful = self._decoys.useful(envs)[np.arange(len(hosts)), hosts]
            first = 0 if self._knows_no_kinds else likeliest_decoys()[useful]
            following = np.where(useful > 0, self._decoy_actions[first, hosts], self._sleep)
            actions = np.where(self._is_next[choices], following, actions)
        if self._instead is not None:
            step = np.minimum(self._n_steps[envs], len(self._instead) - 1)
            actions = self._instead[step, actions]
        return actions

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Note the actions [M], by index, that Blue took in M envs."""
        self._decoys.after(envs, actions)
        self._n_steps[envs] += 1

    def with_masks(self, obs: NDArray[np.uint8], envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return what Blue sees [M, D] in M envs, with masks of its choices if there are any."""
        if not self.has_masks:
            return obs
        masks = self._masks[self._decoys.scenarios(envs)]
        if self._is_next.any():
            masks = masks & (~self._is_next | (self._decoys.useful(envs) > 0)[:, self._hosts])
        return np.concatenate([obs, masks], axis=1)


@functools.cache
def _by_the_clock(actions: tuple[str, ...]) -> Indices:
    """Return what replaces each of A actions, by name, in each step, `[101, A]`.

    Later steps are as the last row.
    """
    instead = np.tile(np.arange(len(actions)), (max(HORIZONS) + 1, 1))
    for number, name in enumerate(actions):
        kind, _, host = name.partition(" ")
        if kind != "Restore":
            continue
        remove = actions.index(f"Remove {host}")
        if host.startswith("User"):
            for horizon, n_late in LATE.items():
                instead[horizon - n_late : horizon, number] = remove
        # In the last step Restore costs at least as much as any host but Op_Server0 is worth.
        if host != "Op_Server0":
            instead[max(HORIZONS) - 1, number] = remove
    return instead
