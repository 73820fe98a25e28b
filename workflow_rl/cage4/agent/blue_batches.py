"""Blue teams that play in N envs at once, beside a red team that learns.

`begin` begins episodes in M envs, with masks [M, 570] and seeds of the team's own draws; `act`
returns actions [M, 5], and messages [M, 5, 8] or None; `see` looks at what a step showed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.agent.belief import N_AGENTS, Belief, Bits, Joint
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.agent.rules import RuleTeam
from workflow_rl.cage4.agent.scripted import ScriptedTeam
from workflow_rl.cage4.agent.views import SLEEP, Shown

Messages: TypeAlias = Bits | None


class BlueSees(NamedTuple):
    """What Blue sees of M envs after a step or a reset: see `BatchedSimulator`.

    obs: int8 [M, 578]. raw: `RAW` [M]. busy: the coming busy steps [M, 5].
    """

    obs: Shown
    raw: NDArray[Any]
    busy: Joint


class BatchedPolicies:
    """A trained team."""

    def __init__(self, team: PolicyTeam, n_envs: int) -> None:
        self._actor = copy.deepcopy(team.policy)
        self._views = team.views(n_envs)
        size = self._actor.parameters.layout.row_size
        self._rows = np.zeros((n_envs, size), np.float32)
        self._taken = np.tile(SLEEP, (n_envs, 1))

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self._actor.reset(seed, env)
        self._rows[envs] = self._views.begin(envs, seen.obs, masks, seen.raw, seen.busy)

    def act(self, envs: Sequence[int]) -> tuple[Joint, Messages]:
        decided, _ = self._actor.act(self._rows[envs], envs)
        taken = self._taken[envs] = self._views.play(envs, decided)
        sent = self._views.sent
        return taken, None if sent is None else sent[envs]

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        ended = np.zeros(len(envs), np.bool_)
        self._rows[envs] = self._views.after(envs, self._taken[envs], *seen, ended)


class BatchedRules:
    """The team of rules."""

    def __init__(self, team: RuleTeam, n_envs: int) -> None:
        self._team, self._belief = team, Belief(n_envs)
        self._is_free = np.ones((n_envs, N_AGENTS), np.bool_)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        self._belief.begin(envs, masks, seen.raw)
        self._is_free[envs] = True

    def act(self, envs: Sequence[int]) -> tuple[Joint, Messages]:
        advice = self._team.advise(self._belief, envs)
        taken: Joint = np.where(self._is_free[envs], advice, SLEEP)
        self._belief.begin_actions(envs, taken)
        return taken, None

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        self._belief.update(envs, seen.raw)
        self._is_free[envs] = seen.busy == 0


class BatchedScripts:
    """A scripted team, a copy in each env."""

    def __init__(self, team: ScriptedTeam, n_envs: int) -> None:
        self._teams = [copy.deepcopy(team) for _ in range(n_envs)]
        self._seen: dict[int, tuple[Shown, NDArray[Any]]] = {}

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed, mask in zip(envs, seeds, masks, strict=True):
            self._teams[env].reset(np.split(mask, scenario4.FIRST_ACTION[1:]), seed)
        self.see(envs, seen)

    def act(self, envs: Sequence[int]) -> tuple[Joint, Messages]:
        actions, messages = zip(*map(self._of_env, envs), strict=True)
        sent = None if messages[0] is None else np.stack(messages)
        return np.array(actions), sent

    def _of_env(self, env: int) -> tuple[list[int], Messages]:
        obs, raw = self._seen[env]
        vectors = np.split(obs.astype(np.int64), scenario4.FIRST_OBS[1:])
        return self._teams[env].act(vectors, lambda: raw)

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        for i, env in enumerate(envs):
            self._seen[env] = seen.obs[i], seen.raw[i : i + 1]


def in_batches(team: ScriptedTeam, n_envs: int) -> BatchedPolicies | BatchedRules | BatchedScripts:
    """Return a team that plays as the given one does, in `n_envs` envs at once."""
    if isinstance(team, PolicyTeam):
        return BatchedPolicies(team, n_envs)
    if isinstance(team, RuleTeam):
        return BatchedRules(team, n_envs)
    return BatchedScripts(team, n_envs)
