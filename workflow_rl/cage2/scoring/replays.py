"""The guest's hook `replays`, which makes pages that show episodes of CAGE-2."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from workflow_rl.agents.settings import ContentOf, Settings
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import REDS, able_reds, problem_of_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of, scenario_text
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.recording import record_episode
from workflow_rl.cage2.scoring.replay_page import compare_with_cyborg, replay_page
from workflow_rl.environments.challenge import Replay
from workflow_rl.errors import ConfigError

MOST_STEPS = 1000
"""The largest number of steps on a page. The page's size grows with this number."""


class ReplaySettings(Settings):
    """The options of a replay. A wrong value raises ConfigError."""

    red_agent: Annotated[str, BeforeValidator(REDS.text)] | None = Field(
        None,
        description="The red agent, as in a training. By default B_lineAgent, or RedMeanderAgent "
        "if B_lineAgent cannot play in the network.",
    )
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = Field(
        100, description="Length of the episode in steps."
    )
    scenario: Annotated[str, ContentOf(scenario_text)] | None = Field(
        None,
        description="The network: scenario2, scenario1b or a scenario file. By default the "
        "training's network. After a training in a family, another network of the family.",
    )


class Cage2Replays:
    """Replays of CAGE-2's episodes: see `environments.challenge.Replays`."""

    settings = ReplaySettings

    def load(self, agent: Path, which: str | None, greedy: bool | None) -> Blue:
        return load_blue(agent, None, which, greedy)

    def replay(self, agents: Sequence[Blue], settings: Settings, seed: int, episode: int) -> Replay:
        """Play the episode, and compare each step with CybORG if CybORG is installed."""
        assert isinstance(settings, ReplaySettings)
        network = _network_of(agents, settings)
        max_steps = settings.max_steps
        red_agent = settings.red_agent or able_reds(network)[0]
        environment = Cage2(red_agent, simulator="compiled", scenario=network.text)
        environment.check()
        try:
            recordings = [
                record_episode(blue.into(network), red_agent, max_steps, seed, episode)
                for blue in agents
            ]
            compared = [
                compare_with_cyborg(recording, scenario=network) for recording in recordings
            ]
        except (Exception, SystemExit) as error:
            if not environment.foreign:
                raise
            problem = f"the episode against {red_agent} failed: {in_one_line(error)}"
            raise ConfigError("red_agent", problem) from error
        lines = [
            f"{recording.agent} against {recording.opponent}, {len(recording.steps)} steps: "
            f"return {recording.episode_return:.1f}"
            for recording in recordings
        ]
        lines += dict.fromkeys(comparison.text for comparison in compared)
        is_same = all(comparison.is_same is not False for comparison in compared)
        return Replay(replay_page(recordings, compared, network), lines, is_same)


def _network_of(agents: Sequence[Blue], settings: ReplaySettings) -> Scenario:
    """Return the network of the episode. Raises ConfigError if no episode can be played there."""
    # The default is the network of a trained agent, if there is a trained agent.
    learned = (blue.network for blue in agents if blue.choice != "scripted")
    network: Scenario | ScenarioFamily = next(learned, agents[0].network)
    if settings.scenario is not None:
        network = played_of(settings.scenario)
    if isinstance(network, ScenarioFamily):
        raise ConfigError(
            "scenario", f"{network} is a family: a page shows one network, so give a scenario"
        )
    reds = None if settings.red_agent is None else REDS.read(settings.red_agent)
    if reds is not None and (problem := problem_of_reds(network, reds)) is not None:
        raise ConfigError("red_agent", problem)
    return network
