"""CAGE-2, from Red's side, as the Environment of a run."""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage.attackers import label_of
from workflow_rl.cage.environment import AgainstBlue
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_ENV_ID, SCENARIO2
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Actor
    from workflow_rl.agents.spaces import Spaces
    from workflow_rl.environments.env_batch import EnvBatch


@dataclass(frozen=True)
class Cage2Red(AgainstBlue):
    """CAGE Challenge 2 from Red's side. `guest.Cage2RedArguments` describes the arguments."""

    scenario: str = SCENARIO2

    env_id: ClassVar[str] = RED_ENV_ID
    settings: ClassVar[Mapping[str, Any]] = {"total_episodes": 3000}
    preload: ClassVar[str] = "workflow_rl.cage2.compiled.preload"

    @functools.cached_property
    def network(self) -> Scenario:
        """The scenario, which `Cage2RedArguments` has checked."""
        return Scenario.from_checked(self.scenario)

    @property
    def label(self) -> str:
        return label_of(self.blue_name)

    @property
    def episode_steps(self) -> int:
        """The number of steps of every episode. Episodes are truncated, never terminated."""
        return self.max_steps

    def spaces(self) -> Spaces:
        """Return the spaces: observations of bits, and Red's actions with masks."""
        from workflow_rl.agents.policies.distributions import Categorical
        from workflow_rl.agents.spaces import Spaces

        actions = Categorical(len(self.network.red_action_names))
        return Spaces(self.network.red_obs_size, actions, bits=True, masked=True)

    def _brought(self) -> Collection[str]:
        from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS

        return {*SCRIPTED_AGENTS, *_released()}

    def _found_opponents(self) -> Actor:
        """Return the blue agent, an actor on records: see `agent.blue`."""
        from workflow_rl.agents.policies.actors import MixedActor
        from workflow_rl.cage2.scoring.players import load_blue

        try:
            blues = [
                load_blue(_released().get(blue, blue), self.network, greedy=True)
                for blue in self.weights
            ]
        except ValueError as error:
            raise ConfigError("blue_agent", str(error)) from None
        if len(blues) == 1:
            return blues[0]
        return MixedActor(blues, list(self.weights.values()))

    def actor_on_observations(self, actor: Actor) -> Actor:
        """Wrap an actor of these envs, so that it takes the observations of `Cage2RedEnv`."""
        from workflow_rl.cage2.env.red_against_blue import BareRed

        return BareRed(actor, self.network)

    def _make_envs(self, n_envs: int) -> EnvBatch:
        from workflow_rl.cage2.compiled.batched_simulator import CompiledEnvs
        from workflow_rl.cage2.env.red_against_blue import RedAgainstBlue

        blue = copy.deepcopy(self.opponents)
        batch = RedAgainstBlue(n_envs, self.max_steps, blue, self.network)
        return CompiledEnvs(batch, self.max_steps)


def _released() -> Mapping[str, Path]:
    from workflow_rl.environments.source import guests

    return guests[Cage2.env_id].released
