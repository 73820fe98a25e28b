from pathlib import Path

import numpy as np
from click.testing import CliRunner

from scripts import score_cage4_teams
from scripts.score_cage4_teams import Lost, play
from tests.cli import refused
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.rules import RuleTeam
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.scenario.scenario4 import COUNTED_STEPS, RED_AGENTS, SCENARIOS, Scenario

SEEDS = range(40, 43)


def told_by(*words: str) -> str:
    result = CliRunner().invoke(score_cage4_teams.main, words)
    assert result.exit_code == 0, result.output
    return result.output


def total_of(team: SingleTeam, seed: int) -> int:
    simulator = CompiledSimulator(RED_AGENTS[0], 500)
    observations = simulator.reset(seed)
    team.reset(simulator.masks, seed)
    total = 0
    for _ in range(COUNTED_STEPS):
        result = simulator.step(*team.act_in(simulator, observations))
        observations = result.observations
        total += result.reward
    return total


def test_totals_are_those_of_single_episodes():
    for name in ("rules", "champion"):
        lost = play(TEAMS[name], SEEDS, RED_AGENTS[0])
        parts = lost.restores + lost.contractor + lost.impacts
        assert (lost.total <= parts).all()
        assert (parts < 0).any()
        expected = [total_of(make_scripted_team(name), seed) for seed in SEEDS]
        assert np.array_equal(lost.total, expected)


def test_teams_are_compared_on_the_same_episodes():
    words = ["--episodes", "2", "--variant", "released", "--variant", "released"]
    words += ["--weights", str(RELEASED["champion"])]
    said = told_by(*words)
    assert said.count("failed work") == 2
    assert said.count("paired difference") == 1


def test_sets_of_episodes_make_one_pool(monkeypatch):
    """A seed that two sets share is played once."""
    played = []

    def played_as(team: object, seeds: list[int], red_agent: str, scenario: Scenario) -> Lost:
        played.append(seeds)
        return Lost(*np.zeros((4, len(seeds)), np.int64))

    monkeypatch.setattr(score_cage4_teams, "play", played_as)
    words = ["--champion", "--episodes", "3", "--first-seed", "7", "--first-seed", "9"]
    assert "episodes: 8" in told_by(*words, "--first-seed", "20")
    assert played == [[7, 8, 9, 10, 11, 20, 21, 22]]


def test_a_table_has_every_scenario(monkeypatch):
    played = []

    def played_as(team: object, seeds: list[int], red_agent: str, scenario: Scenario) -> Lost:
        played.append(scenario)
        parts = np.zeros((3, len(seeds)), np.int64)
        return Lost(np.full(len(seeds), -len(played)), *parts)

    monkeypatch.setattr(score_cage4_teams, "play", played_as)
    words = ["--episodes", "2", "--variant", "released", "--variant", "robust"]
    said = told_by(*words, "--scenario", "all")
    assert played == [scenario for scenario in SCENARIOS.values() for _ in range(2)]
    row = "| robust | -2.0 ± 0.0 | -4.0 ± 0.0 | -6.0 ± 0.0 | -8.0 ± 0.0 | -10.0 ± 0.0 |"
    assert said.splitlines()[-1] == row
    assert said.count("paired difference") == 5


def test_a_scenario_is_played():
    """In a network of constant size, where mail opens sessions at once, totals are others."""
    scenario = Scenario(users=6, servers=3, phishing_rate=0.75)
    lost = play(RuleTeam, SEEDS, RED_AGENTS[0], scenario)
    assert (lost.total < play(RuleTeam, SEEDS, RED_AGENTS[0]).total).all()


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes").write_text("notes")
    cage2 = Path(RELEASED["champion"]).parents[3] / "cage2" / "agent" / "released" / "champion.npz"
    for path, words in ((tmp_path / "notes", "is no policy file"), (cage2, "holds no team")):
        refused(CliRunner().invoke(score_cage4_teams.main, ["--weights", str(path)]), words)
