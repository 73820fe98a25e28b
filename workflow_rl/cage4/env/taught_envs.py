"""CAGE-4 envs whose rows end with a teacher's choices: see `Guest.teaching`."""

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.env.team_envs import TeamEnvs
from workflow_rl.cage4.scenario.scenario4 import N_ACTIONS
from workflow_rl.environments.env_batch import Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec


class TaughtTeamEnvs(TeamEnvs):
    """The envs of `environment`. Each row ends with the choices of the team named `teacher`. If the
    row's mask forbids a teacher's action, the choice is Sleep."""

    def __init__(self, environment: Cage4, teacher: str, n_envs: int) -> None:
        networks = environment.networks(n_envs, shows_raw=True)
        super().__init__(networks, environment.rows(n_envs), environment.episode_steps)
        self._teacher = TEAMS[teacher](n_envs)
        layout = environment.spaces().team
        assert layout is not None
        # A policy that learns messages chooses an action and a word together. Word 0 is silence.
        self._n_words = layout.n_actions[0] // N_ACTIONS[0]
        self._n_masks = sum(layout.n_actions)
        self._first_choice = np.cumsum([0, *layout.n_actions[:-1]])

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        rows = super().reset(envs, specs)
        seeds = [spec.action_seed for spec in specs]
        self._teacher.begin(envs, seeds, self._networks.masks[envs], self._seen(envs))
        return self._with_advice(rows, envs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        transitions = super().step(envs, actions)
        self._teacher.see(envs, self._played[envs], self._seen(envs))
        return transitions._replace(obs=self._with_advice(transitions.obs, envs))

    def _with_advice(self, rows: Obs, envs: Sequence[int]) -> Obs:
        wanted, _ = self._teacher.act(envs)
        columns = self._first_choice + wanted * self._n_words
        is_possible = np.take_along_axis(rows[:, -self._n_masks :] > 0, columns, axis=1)
        choices = np.where(is_possible, wanted, SLEEP) * self._n_words
        dtype = np.result_type(rows.dtype, np.min_scalar_type(self._n_masks))
        return np.concatenate([rows, choices], axis=1, dtype=dtype, casting="unsafe")
