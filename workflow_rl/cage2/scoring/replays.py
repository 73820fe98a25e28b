"""Episodes of CAGE-2 as pages. The guest's hook `replays`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from workflow_rl.agents.modules import in_one_line
from workflow_rl.agents.settings import Settings
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.reds import REDS
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.players import BluePlayer, load_blue
from workflow_rl.cage2.scoring.recording import record_episode
from workflow_rl.cage2.scoring.replay_page import compare_with_cyborg, replay_page
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.environments.guest import Replay

MOST_STEPS = 1000
"""Largest number of steps on a page, whose size grows with them."""


class ReplaySettings(Settings):
    """What can be chosen of an episode. Making one raises ConfigError."""

    red_agent: Annotated[str, BeforeValidator(REDS.text)] = Field(
        RED_AGENTS[0], description="The red agent, as a training takes it."
    )
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = Field(
        100, description="Length of the episode in steps."
    )


class Cage2Replays:
    """See `environments.guest.Replays`."""

    settings = ReplaySettings

    def load(self, agent: Path, which: str | None, greedy: bool) -> BluePlayer:
        """Return the agent."""
        return load_blue(agent, which, greedy)

    def replay(
        self, agents: Sequence[BluePlayer], settings: Settings, seed: int, episode: int
    ) -> Replay:
        """Play the episode, and compare each step with CybORG if that is installed."""
        assert isinstance(settings, ReplaySettings)
        red_agent, max_steps = settings.red_agent, settings.max_steps
        environment = Cage2(red_agent)
        environment.check()
        try:
            recordings = [
                record_episode(blue, red_agent, max_steps, seed, episode) for blue in agents
            ]
            compared = [compare_with_cyborg(recording) for recording in recordings]
        except (Exception, SystemExit) as error:
            if not environment.foreign:
                raise
            told = f"the episode against {red_agent} failed: {in_one_line(error)}"
            raise InvalidEnvironmentError("red_agent", told) from error
        lines = [
            f"{recording.agent} against {recording.opponent}, {len(recording.steps)} steps: "
            f"return {recording.episode_return:.1f}"
            for recording in recordings
        ]
        lines += dict.fromkeys(comparison.text for comparison in compared)
        is_same = all(comparison.is_same is not False for comparison in compared)
        return Replay(replay_page(recordings, compared), lines, is_same)
