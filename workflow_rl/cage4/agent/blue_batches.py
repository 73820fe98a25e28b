"""Blue teams that play in N envs at once, beside a red team that learns."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.mixed_actor import Lineup
from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.agent.belief import N_AGENTS, Belief, Bits, Joint
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.agent.rules import RuleTeam
from workflow_rl.cage4.agent.scripted import ScriptedTeam
from workflow_rl.cage4.agent.views import SLEEP, Shown

SILENCE = np.zeros((), np.bool_)


class BlueSees(NamedTuple):
    """What Blue sees of M envs after a step or a reset: see `BatchedSimulator`.

    obs: int8 [M, 578]. raw: `RAW` [M], or [0] if nobody reads it. busy: the coming busy steps
    [M, 5].
    """

    obs: Shown
    raw: NDArray[Any]
    busy: Joint

    def of(self, rows: NDArray[np.int64]) -> BlueSees:
        """Return what Blue sees of some of these envs."""
        return BlueSees(
            self.obs[rows], self.raw[rows] if len(self.raw) else self.raw, self.busy[rows]
        )


class BlueBatch(Protocol):
    """A team that plays in envs which are numbered from 0."""

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        """Begin episodes in M envs. seeds: of the team's own draws. masks: [M, 570]."""

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        """Return actions [M, 5], and messages [M, 5, 8] or SILENCE."""

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        """Look at what a step showed."""


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

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        decided, _ = self._actor.act(self._rows[envs], envs)
        taken = self._taken[envs] = self._views.play(envs, decided)
        sent = self._views.sent
        return taken, SILENCE if sent is None else sent[envs]

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

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        advice = self._team.advise(self._belief, envs)
        taken: Joint = np.where(self._is_free[envs], advice, SLEEP)
        self._belief.begin_actions(envs, taken)
        return taken, SILENCE

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

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        actions, messages = zip(*map(self._of_env, envs), strict=True)
        return np.array(actions), SILENCE if messages[0] is None else np.stack(messages)

    def _of_env(self, env: int) -> tuple[list[int], Bits | None]:
        obs, raw = self._seen[env]
        vectors = np.split(obs.astype(np.int64), scenario4.FIRST_OBS[1:])
        return self._teams[env].act(vectors, lambda: raw)

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        for i, env in enumerate(envs):
            self._seen[env] = seen.obs[i], seen.raw[i : i + 1]


class MixedTeams:
    """Several teams, of which each episode draws one by its seed."""

    def __init__(self, teams: Sequence[BlueBatch], weights: Sequence[float]) -> None:
        self._teams, self._draws = teams, Lineup(weights)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self._draws.begin(seed, env)
        for number, places, of in self._draws.parts(envs):
            drawn = [seeds[place] for place in places.tolist()]
            self._teams[number].begin(of, drawn, masks[places], seen.of(places))

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        actions = np.zeros((len(envs), N_AGENTS), np.int64)
        sent = np.zeros((*actions.shape, scenario4.MESSAGE_BITS), np.bool_)
        for number, places, of in self._draws.parts(envs):
            actions[places], sent[places] = self._teams[number].act(of)
        return actions, sent

    def see(self, envs: Sequence[int], seen: BlueSees) -> None:
        for number, places, of in self._draws.parts(envs):
            self._teams[number].see(of, seen.of(places))


def in_batches(teams: Sequence[ScriptedTeam], weights: Sequence[float], n_envs: int) -> BlueBatch:
    """Return what plays as one of the teams does, in `n_envs` envs at once."""
    batches = [_batch(team, n_envs) for team in teams]
    return batches[0] if len(batches) == 1 else MixedTeams(batches, weights)


def _batch(team: ScriptedTeam, n_envs: int) -> BlueBatch:
    if isinstance(team, PolicyTeam):
        return BatchedPolicies(team, n_envs)
    if isinstance(team, RuleTeam):
        return BatchedRules(team, n_envs)
    return BatchedScripts(team, n_envs)
