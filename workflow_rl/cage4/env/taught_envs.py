"""CAGE-4 envs whose rows end with what a team does next: see `Guest.teaching`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage4.agent.belief import Bits, Joint
from workflow_rl.cage4.agent.rules import RuleTeam
from workflow_rl.cage4.agent.scripted import Look, ScriptedTeam, make_scripted_team
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.env.team_envs import TeamEnvs
from workflow_rl.cage4.scenario4 import N_ACTIONS, OBS_SIZES
from workflow_rl.environments.env_batch import Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

_OBS_ENDS, _MASK_ENDS = np.cumsum(OBS_SIZES)[:-1], np.cumsum(N_ACTIONS)[:-1]


class TaughtTeamEnvs(TeamEnvs):
    """The envs of `environment`, with the choices of a team at the end of each row. teacher: the
    team's name. Where an action is impossible, the choice is to sleep."""

    def __init__(self, environment: Cage4, teacher: str, n_envs: int) -> None:
        networks = environment.networks(n_envs, shows_raw=True)
        super().__init__(networks, environment.rows(n_envs), environment.episode_steps)
        self._name = teacher
        self._teams: dict[int, ScriptedTeam] = {}
        layout = environment.spaces().team
        assert layout is not None
        # A policy that learns messages chooses an action and a word together; the first is silence.
        self._n_words = layout.n_actions[0] // N_ACTIONS[0]
        self._n_masks = sum(layout.n_actions)
        self._first_choice = np.cumsum([0, *layout.n_actions[:-1]])

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        rows = super().reset(envs, specs)
        for env, spec in zip(envs, specs, strict=True):
            self._teams[env] = make_scripted_team(self._name)
            masks = np.split(self._networks.masks[env], _MASK_ENDS)
            self._teams[env].reset(masks, spec.action_seed)
        return self._with_advice(rows, envs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        transitions = super().step(envs, actions)
        return transitions._replace(obs=self._with_advice(transitions.obs, envs))

    def _with_advice(self, rows: Obs, envs: Sequence[int]) -> Obs:
        wanted = self._wanted(envs)
        choices = np.where(self._possible(rows, wanted), wanted, SLEEP) * self._n_words
        dtype = np.result_type(rows.dtype, np.min_scalar_type(self._n_masks))
        return np.concatenate([rows, choices], axis=1, dtype=dtype, casting="unsafe")

    def _wanted(self, envs: Sequence[int]) -> Joint:
        team, belief = self._teams[envs[0]], self._rows.belief
        if isinstance(team, RuleTeam) and belief is not None:
            # A team with a belief of its own would believe that it did what it only advised.
            return team.advise(belief, list(envs))
        obs = self._networks.obs[envs].astype(np.int64)
        return np.array(
            [
                self._teams[env].act(np.split(seen, _OBS_ENDS), self._look(env))[0]
                for env, seen in zip(envs, obs, strict=True)
            ]
        )

    def _look(self, env: int) -> Look:
        return lambda: self._networks.raw[env : env + 1]

    def _possible(self, rows: Obs, wanted: Joint) -> Bits:
        masks = rows[:, -self._n_masks :] > 0
        return np.take_along_axis(masks, self._first_choice + wanted * self._n_words, 1)
