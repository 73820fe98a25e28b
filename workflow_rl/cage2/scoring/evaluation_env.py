"""The environment of evaluations, whose observations also tell what happened in each step.

An observation is a record of the bits, of what `info` says and of Red's action. So scripted agents,
which need more than the bits, play in the same workers as policies, and a trajectory holds the
actions that the official result file lists. Workers import this module: it imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.attackers import Attackers
from workflow_rl.cage2.agent.scripted import ScriptedAgent, make_scripted_agent
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS

ACTION_CHARACTERS = 64
"""The most of Red's action that is kept. Actions of CAGE-2's own red agents are shorter."""


def record_of(scenario: Scenario) -> np.dtype[Any]:
    """Return the type of the records of a scenario."""
    return np.dtype(
        [
            ("obs", np.uint8, scenario.obs_size),
            ("suspicious", np.bool_, len(scenario.hosts)),
            ("red_action", f"S{ACTION_CHARACTERS}"),
        ]
    )


class EvaluationEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Cage2Env with observations that are records of the last step, if any."""

    def __init__(
        self,
        max_steps: int,
        simulator: str,
        reds: Attackers | str = RED_AGENTS[0],
        scenario: Scenario | None = None,
    ) -> None:
        scenario = scenario or Scenario.scenario2()
        super().__init__(Cage2Env(reds, max_steps, simulator, "uint8", scenario=scenario))
        self._record_type = record_of(scenario)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode. The first record has no action."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._record(obs, info, ""), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        red_action = self.unwrapped.describe(truth=True)["red_action"]  # type: ignore[attr-defined]
        return self._record(obs, info, red_action), float(reward), terminated, truncated, info

    def _record(self, obs: NDArray[np.uint8], info: dict[str, Any], red_action: str) -> Any:
        text = red_action.encode("ascii", "replace")
        return np.array((obs, info["suspicious_hosts"], text), self._record_type)


class PolicyBlue:
    """An actor of plain observations that plays from records."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin or continue an episode: see Actor."""
        self.actor.reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for records [M], and their log-probabilities."""
        return self.actor.act(obs["obs"], envs)


class ScriptedBlue:
    """A scripted agent, by its name, that plays from records. It has no log-probabilities."""

    policy_version = 0

    def __init__(self, name: str, scenario: Scenario | None = None) -> None:
        self.name, self._scenario = name, scenario
        make_scripted_agent(name, scenario)
        self._agents: dict[int, ScriptedAgent] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`. The seed determines the agent's draws."""
        assert n_acted == 0, "what the agent remembers of the steps before is not known"
        self._agents[env] = make_scripted_agent(self.name, self._scenario)
        self._agents[env].reset(seed)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for records [M], and NaN."""
        actions = [
            self._agents[env].act(record["obs"], {"suspicious_hosts": record["suspicious"]})
            for env, record in zip(envs, obs, strict=True)
        ]
        return np.array(actions), np.full(len(actions), np.nan, np.float32)


def step_actions(trajectory: Trajectory, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the actions of Blue and Red in each of the `T` steps, as CybORG prints them.

    names: Blue's actions."""
    # A record describes the step before it.
    records: Any = np.append(trajectory.obs[1:], trajectory.last_obs)
    blue = [names[action] for action in trajectory.action]
    return list(zip(blue, records["red_action"].astype(str).tolist(), strict=True))
