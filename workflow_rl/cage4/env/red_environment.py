"""CAGE-4 from Red's side as the Environment of a run. Workers receive a pickled copy."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from workflow_rl.agents.policies.further_distributions import MultiCategorical
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.cage.attackers import label_of
from workflow_rl.cage.environment import AgainstBlue
from workflow_rl.cage4.agent.blue_team import TeamMaker
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.agent.trained_teams import trained_team
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.red.red_api import red_layout
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_ENV_ID, Scenario
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.errors import ConfigError, UserError, message_of


@dataclass(frozen=True)
class Cage4Red(AgainstBlue, Scenario):
    """CAGE Challenge 4 for a team of six red agents. `arguments.Cage4RedArguments` describes the
    arguments."""

    max_steps: int = MAX_STEPS

    env_id: ClassVar[str] = RED_ENV_ID
    settings: ClassVar[Mapping[str, Any]] = Cage4.settings
    preload: ClassVar[str] = "workflow_rl.cage4.compiled.preload"

    @property
    def label(self) -> str:
        return label_of(f"cage4-red-{self.blue_name}")

    @property
    def episode_steps(self) -> int:
        """The length of every episode. Episodes are truncated, and never terminate."""
        return self.max_steps - 1

    def spaces(self) -> Spaces:
        layout = red_layout()
        actions = MultiCategorical(layout.n_actions)
        return Spaces(layout.obs_dim, actions, masked=True, team=layout)

    def _brought(self) -> Collection[str]:
        return TEAMS

    def _found_opponents(self) -> list[TeamMaker]:
        return [_team(blue_agent) for blue_agent in self.weights]

    def actor_on_observations(self, actor: Actor) -> Actor:
        """Return the actor unchanged, because it plays on the challenge's own vectors."""
        return actor

    def _make_envs(self, n_envs: int) -> EnvBatch:
        from workflow_rl.cage4.env.red_env_batch import RedTeamEnvs

        scenario = Scenario.among(vars(self))
        weights = [*self.weights.values()]
        return RedTeamEnvs(n_envs, self.max_steps, self.opponents, weights, scenario)


def _team(blue_agent: str) -> TeamMaker:
    from workflow_rl.runs.saved_agent import load_saved

    if blue_agent in TEAMS:
        return TEAMS[blue_agent]
    try:
        saved = load_saved(Path(blue_agent))
        if not isinstance(saved.environment, Cage4):
            raise ConfigError("env", "the agent is no blue team for CAGE-4")
        return trained_team(saved.policy, saved.environment)
    except (UserError, ConfigError) as error:
        raise ConfigError("blue_agent", message_of(error)) from None
