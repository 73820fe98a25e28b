"""Episodes of CAGE-4 as pages. The guest's hook `replays`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from workflow_rl.agents.settings import Settings
from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage.replay_frame import shown_name
from workflow_rl.cage4.agent.blue_team import SingleTeam, TeamMaker
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.agent.trained_teams import trained_team
from workflow_rl.cage4.env.arguments import OneRed, ScenarioSettings
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS, Scenario, scenarios_of
from workflow_rl.cage4.scoring.scoring import LEAST_EVALUATED, learned_elsewhere
from workflow_rl.environments.challenge import Replay
from workflow_rl.errors import ConfigError, UserError

MOST_STEPS = 1000
"""The most steps that a page shows. The page's size grows with the number of steps."""


class ReplaySettings(ScenarioSettings):
    """The user's choices about an episode. The constructor raises ConfigError."""

    red_agent: OneRed = Field(
        RED_AGENTS[0],
        description="The class of all red agents, or the folder or policy file of a trained red "
        "team.",
    )
    max_steps: Annotated[int, Field(ge=LEAST_EVALUATED, le=MOST_STEPS)] = Field(
        MAX_STEPS, description="Length of the episode in steps."
    )


class ShownTeam(NamedTuple):
    """A team to watch. told: its name and how it chooses actions. make: makes the team. learned:
    the scenarios of the team's training, or None for a team that did not learn."""

    name: str
    told: str
    make: TeamMaker
    learned: Mapping[str, Scenario] | None = None


class Cage4Replays:
    """See `environments.challenge.Replays`."""

    settings = ReplaySettings

    def load(self, agent: Path, which: str | None, greedy: bool | None) -> ShownTeam:
        if not agent.exists() and str(agent) in TEAMS:
            name = str(agent)
            return ShownTeam(name, f"the team {name}", TEAMS[name])
        from workflow_rl.runs.saved_agent import load_saved

        policy, environment = load_saved(agent, which, greedy)
        if not isinstance(environment, Cage4):
            raise UserError(f"{agent} was trained on {environment.env_id}, not on CAGE-4")
        make = trained_team(policy, environment)
        name = shown_name(agent)
        told = f"{name} ({'greedy' if policy.greedy else 'sampled'} actions)"
        return ShownTeam(name, told, make, scenarios_of(environment.args))

    def replay(
        self, agents: Sequence[ShownTeam], settings: Settings, seed: int, episode: int
    ) -> Replay:
        """Play the episode. All teams play on the network of the first team's evaluation."""
        from workflow_rl.cage4.scoring.recording import record_episodes
        from workflow_rl.cage4.scoring.replay_page import replay_page

        assert isinstance(settings, ReplaySettings)
        red_agent = settings.red_agent
        max_steps = settings.max_steps
        scenario = Scenario.among(dict(settings))
        opponent = red_agent + (f" ({scenario.changes})" if scenario.changes else "")
        teams = [SingleTeam(agent.make(1)) for agent in agents]
        reds = Cage4(red_agent=red_agent).opponents.get(red_agent, red_agent)
        try:
            recordings = record_episodes(teams, reds, max_steps, seed, episode, scenario)
        except AttackerError as error:
            raise ConfigError("red_agent", str(error)) from error
        lines = [
            f"{agent.told} against {opponent}, {len(recording.steps)} counted steps: "
            f"total {recording.total}"
            for agent, recording in zip(agents, recordings, strict=True)
        ]
        for agent in agents:
            lines += learned_elsewhere(agent.learned, [scenario])
        names = [agent.name for agent in agents]
        page = replay_page(recordings, names, opponent, max_steps, seed, episode)
        return Replay(page, lines)
