import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import RandomTeam, make_scripted_team
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.scenario.costs import EVALUATED
from workflow_rl.cage4.scenario.scenario4 import Scenario
from workflow_rl.cage4.scoring import protocol
from workflow_rl.cage4.scoring.protocol import Author, TeamScores, evaluated_episodes, play_protocol
from workflow_rl.errors import UserError

AUTHOR = Author("sleeper", "us", "sleep")
SLEEPER = make_scripted_team("sleep")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> CountingSimulator:
    counting = CountingSimulator()

    def make_simulator(
        name: str, red_agent: str, max_steps: int, scenario: Scenario, measures: bool
    ) -> Any:
        counting.max_steps, counting.scenario = max_steps, scenario
        counting.costs = np.zeros(len(EVALUATED))
        return counting

    monkeypatch.setattr(protocol, "make_simulator", make_simulator)
    return counting


def test_498_rewards_count_and_episodes_are_of_one_stream(simulator):
    scores = play_protocol(SLEEPER, AUTHOR, episodes=2, seed=5)
    assert scores.totals == [-498 * 499 // 2] * 2
    assert simulator.streams == [5]
    assert simulator.seeds == [None, None]


def test_files_are_those_of_the_challenge(simulator, tmp_path):
    folder = tmp_path / "new" / "folder"
    play_protocol(SLEEPER, AUTHOR, "compiled", 2, 5, folder, steps=4)
    names = ["actions.txt", "full.txt", "scores.txt", "summary.json", "summary.txt"]
    assert sorted(file.name for file in folder.iterdir()) == names
    header = (
        "CybORG v4.0, Scenario4\nAuthor: sleeper, Team: us, Technique: sleep\n"
        "Average reward is: -3 with a standard deviation of 0.0\n"
    )
    assert (folder / "scores.txt").read_text() == "reward_mean: -3\nreward_stdev: 0.0\n"
    assert (folder / "summary.txt").read_text().startswith(f"{header}Using agents {{'blue_agent_0'")
    actions = (folder / "actions.txt").read_text()
    assert actions.startswith(f"{header}actions: ([{{'blue_agent_0': [Sleep], 'blue_agent_1'")
    assert actions.count("actions: ([") == 2
    full = (folder / "full.txt").read_text()
    assert full.startswith(f"{header}actions: [{{'blue_agent_0': [Sleep], ")
    assert full.count(",\n observations: [{'blue_agent_0': array([0, ") == 2
    assert full.count(",\n total reward: -3\n") == 2
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reward"] == {"mean": -3, "stdev": 0.0}
    assert summary["parameters"] == {"seed": 5, "episode_length": 4, "max_episodes": 2}
    assert summary["simulator"]["name"] == "compiled"


def test_the_scenario_is_played_and_written(simulator, tmp_path):
    scenario = Scenario(longest_red_action=1)
    scores = play_protocol(SLEEPER, AUTHOR, "compiled", 2, 5, tmp_path, steps=4, scenario=scenario)
    assert simulator.scenario == scores.scenario == scenario
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["scenario"] == dataclasses.asdict(scenario)


def test_only_the_challenges_episodes_are_official():
    scores = TeamScores("compiled", "FiniteStateRedAgent", 0, 500, [-1])
    assert scores.is_official
    for changed in (
        {"red_agent": "SleepAgent"},
        {"steps": 100},
        {"scenario": Scenario(false_alert_rate=0)},
    ):
        assert not dataclasses.replace(scores, **changed).is_official


def test_logged_actions_are_those_that_cyborg_played(checkout):
    simulator = SpedUpNetwork("FiniteStateRedAgent", 40)
    played = []

    class Watched(RandomTeam):
        def act(self, envs):  # type: ignore[no-untyped-def]
            played.append(simulator._controller.last_blue_actions)
            return super().act(envs)

    (episode,) = evaluated_episodes(SingleTeam(Watched()), simulator, 1, 3)
    assert len(episode.rewards) == 38
    # A team acts after the step whose actions are logged.
    assert [list(step.values()) for step in episode.actions] == played[1:]
    assert any("Restore" in words for step in episode.actions for words in step.values())


def test_the_interval_of_two_episodes_by_hand():
    """A standard error of 10, and one degree of freedom."""
    scores = TeamScores("compiled", "FiniteStateRedAgent", 0, 500, [-110, -90])
    assert scores.interval_95 == pytest.approx(127.062, rel=1e-4)
    one = dataclasses.replace(scores, totals=[-110])
    assert math.isnan(one.std)
    assert math.isnan(one.interval_95)


def test_links_in_a_folder_lead_to_no_other_file(simulator, tmp_path):
    own, folder = tmp_path / "own", tmp_path / "logs"
    own.write_text("the user's")
    folder.mkdir()
    names = [f"{name}.{end}" for name in ("full", "actions") for end in ("txt", "part")]
    for name in [*names, "summary.txt", "summary.json", "scores.txt"]:
        (folder / name).symlink_to(own)
    with pytest.raises(UserError, match="is a link"):
        play_protocol(SLEEPER, AUTHOR, "compiled", 1, 5, folder, steps=4)
    assert own.read_text() == "the user's"
    assert (folder / "full.txt").is_symlink()
