"""The evaluation: its episodes, their seeds, and the scores that follow from them."""

import math
from functools import partial
from typing import Any

import pytest

from tests.workflow_rl.cage2.scoring.evaluations import cell, returns, run
from workflow_rl.cage import playing
from workflow_rl.cage.scoring import SimulatorsDifferError
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.agent.scripted import make_scripted_agent, scripted_blue
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.viewed_envs import record_envs
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.players import TrainedBlue
from workflow_rl.cage2.scoring.protocol import cell_spec, evaluate_blue
from workflow_rl.cage2.scoring.scores import ProtocolScores


def blue_of(policy) -> TrainedBlue:
    return TrainedBlue("policy", policy, Cage2())


def play(max_steps: int, red_agent: str, number: int, choose, reset, seed: int) -> float:
    """The sum of an episode's rewards, played without any of the package's collection."""
    env = Cage2Env(red_agent, max_steps)
    spec = cell_spec(seed, max_steps, red_agent, number)
    obs, info = env.reset(seed=spec.env_seed)
    reset(spec.action_seed)
    total, truncated = 0.0, False
    while not truncated:
        obs, reward, _, truncated, info = env.step(choose(obs, info))
        total += reward
    return total


@pytest.mark.parametrize("name", ["sleep", "random", "react-remove", "react-restore"])
def test_a_scripted_agents_scores_equal_those_of_a_plain_loop(name):
    evaluation = evaluate_blue(scripted_blue(name), episodes=2, seed=4, horizons=(25,), n_workers=2)
    agent = make_scripted_agent(name)
    for red_agent in RED_AGENTS:
        expected = [play(25, red_agent, n, agent.act, agent.reset, seed=4) for n in range(2)]
        assert returns(evaluation)[25, red_agent] == pytest.approx(expected)
    assert evaluation.total < 0


def test_a_policys_scores_equal_those_of_a_plain_loop(policy):
    evaluation = evaluate_blue(
        blue_of(policy), episodes=2, horizons=(12,), red_agents=["RedMeanderAgent"]
    )

    def choose(obs, _) -> int:
        return int(policy.act(obs[None])[0][0])

    expected = [play(12, "RedMeanderAgent", n, choose, policy.reset, seed=0) for n in range(2)]
    assert returns(evaluation) == {(12, "RedMeanderAgent"): pytest.approx(expected)}


def test_scores_do_not_depend_on_the_workers_nor_on_the_other_cells(policy):
    both = [
        returns(evaluate_blue(blue_of(policy), episodes=3, seed=2, horizons=(8, 12), n_workers=n))
        for n in (1, 2)
    ]
    assert both[0] == both[1]
    alone = evaluate_blue(
        blue_of(policy), episodes=2, seed=2, horizons=[12], red_agents=["SleepAgent"], n_workers=1
    )
    assert returns(alone)[12, "SleepAgent"] == both[0][12, "SleepAgent"][:2]


def test_a_cell_without_all_its_episodes_has_no_score(tmp_path, monkeypatch):
    broken = cell_spec(0, 3, "RedMeanderAgent", 1).env_seed

    class Broken(CompiledEnvs):
        def reset(self, envs, specs):
            if specs[0].env_seed == broken:
                raise ArithmeticError("the network is down")
            return super().reset(envs, specs)

    def make_envs(environment, n_envs):
        envs = record_envs(environment, n_envs)
        batch = BatchedSimulator(n_envs, environment.max_steps)
        envs._envs = Broken(batch, environment.max_steps)
        return envs

    monkeypatch.setattr(Blue, "make_envs", lambda _, environment: partial(make_envs, environment))
    path = tmp_path / "scores.json"
    options = ["--agent", "sleep", "--episodes", 2, "--max-steps", 3, "--json", path]
    line = run(*options, "--output-dir", tmp_path / "results", code=1).splitlines()[-1]
    assert line.startswith("Error: ")
    assert "1 of the 6 episodes" in line
    assert "1 (RedMeanderAgent, 3 steps)" in line
    assert "ArithmeticError: the network is down" in line
    assert not path.exists()
    assert not any((tmp_path / "results").iterdir())


def test_cells_come_in_the_official_order(policy):
    evaluation = evaluate_blue(
        blue_of(policy), 1, horizons=(3, 2), red_agents=("SleepAgent", "B_lineAgent"), n_workers=2
    )
    assert list(returns(evaluation)) == [
        (2, "B_lineAgent"),
        (2, "SleepAgent"),
        (3, "B_lineAgent"),
        (3, "SleepAgent"),
    ]
    assert not evaluation.is_official


def test_mean_deviation_and_interval_of_hand_computed_cells():
    # Deviations from -4: -3, 0, 3 -> sum of squares 18, / (3 - 1) = 9.
    three = cell(-7.0, -4.0, -1.0)
    assert (three.mean, three.std) == (-4.0, 3.0)
    assert three.interval_95 == pytest.approx(4.3027 * 3 / math.sqrt(3), rel=1e-4)
    assert math.isnan(cell(-7.0).std)
    # Two equal independent cells: sqrt(2) times the error, and 5 degrees of freedom.
    both = ProtocolScores("x", SimulatorVersion("s", "1", "c"), 0, 1.0, [three, three])
    assert both.total == -8.0
    assert both.total_mean.interval_95 == pytest.approx(2.5706 * math.sqrt(2) * 3**0.5, rel=1e-4)


def test_drawn_episodes_are_played_again_on_cyborg(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second play gives another total where the first one is changed."""
    asked: dict[str, Any] = {"episodes": 3, "horizons": (5, 8), "n_workers": 1, "check": 7}
    line = "7 of 7 episodes have the same total on csle-cyborg 0.0.3."
    assert evaluate_blue(scripted_blue("react-restore"), **asked).checked == line
    play, played = playing.play_with_progress, list[int]()

    def changed(pool: Any, blue: Any, specs: Any, *more: Any) -> list[Any]:
        played.append(len(specs))
        trajectories = play(pool, blue, specs, *more)
        if len(played) == 4:
            last = trajectories[-1]
            trajectories[-1] = last._replace(reward=last.reward - 1.0)
        return trajectories

    monkeypatch.setattr(playing, "play_with_progress", changed)
    told = r"8 steps.* total -?\S+ in compiled code, and -?\S+ on csle-cyborg 0\.0\.3"
    with pytest.raises(SimulatorsDifferError, match=told):
        evaluate_blue(scripted_blue("react-restore"), **asked)
    assert played[:2] == [9, 9]
    assert sum(played[2:]) == 7


def test_red_agents_of_users_are_not_said_to_be_played_on_cyborg() -> None:
    own = ("workflow_rl.cage2.attackers:BLine",)
    asked: dict[str, Any] = {"episodes": 2, "horizons": (5,), "n_workers": 1, "check": 3}
    told = "No episode was played again: CybORG does not play these red agents."
    assert evaluate_blue(scripted_blue("sleep"), red_agents=own, **asked).checked == told
    both = evaluate_blue(scripted_blue("sleep"), red_agents=("B_lineAgent", *own), **asked)
    assert both.checked == "2 of 2 episodes have the same total on csle-cyborg 0.0.3."
