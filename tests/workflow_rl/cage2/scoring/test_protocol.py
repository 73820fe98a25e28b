"""The evaluation: its episodes, what is written about them, and its error lines."""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from agents.policies.distributions import Categorical
from agents.policies.numpy_policy import NumpyPolicy
from agents.ppo.agent import PPOAgent, PPOConfig
from agents.trajectory import Trajectory
from workflow_rl.cage2.agent.scripted import make_scripted_agent
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion, simulator_version
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.cage2.scoring.evaluation_env import RECORD, EvaluationEnv, step_actions
from workflow_rl.cage2.scoring.leaderboard import SCRIPTED_SCORES, TOP_SCORES
from workflow_rl.cage2.scoring.players import load_actor, load_trained
from workflow_rl.cage2.scoring.protocol import cell_spec, evaluate_actor
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores, score_table
from workflow_rl.commands.evaluate import evaluate
from workflow_rl.runs.checkpoint import (
    Checkpoint,
    CheckpointError,
    TrainingState,
    checkpoint_path,
    save_checkpoint,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import train
from workflow_rl.runs.saved_agent import load_agent
from workflow_rl.runs.saved_agent import load_policy as load_saved_policy


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(evaluate, [*map(str, arguments), "--quiet"])


def error_line(result: Result) -> str:
    """The one line a user sees below the usage."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    line = result.output.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def save_agent(path: Path, obs_dim: int = 52, n_actions: int = 145, seed: int = 1) -> PPOAgent:
    config = TrainConfig("async", n_envs=2, ppo=PPOConfig(hidden_sizes=(8,)))
    agent = PPOAgent(config.settings, obs_dim, Categorical(n_actions), seed)
    agent.policy_version = 7
    save_checkpoint(path, Checkpoint(config.to_dict(), agent.state_dict(), TrainingState()))
    return agent


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


def returns(evaluation: ProtocolScores) -> dict[tuple[int, str], list[float]]:
    return {(cell.max_steps, cell.red_agent): cell.returns for cell in evaluation.cells}


@pytest.mark.parametrize("name", ["sleep", "random", "react-remove", "react-restore"])
def test_a_scripted_agents_scores_equal_those_of_a_plain_loop(name):
    evaluation = evaluate_actor(name, episodes=2, seed=4, horizons=(25,), n_workers=2)
    agent = make_scripted_agent(name)
    for red_agent in RED_AGENTS:
        expected = [play(25, red_agent, n, agent.act, agent.reset, seed=4) for n in range(2)]
        assert returns(evaluation)[25, red_agent] == pytest.approx(expected)
    assert evaluation.total < 0


def test_a_policys_scores_equal_those_of_a_plain_loop(policy):
    evaluation = evaluate_actor(policy, episodes=2, horizons=(12,), red_agents=["RedMeanderAgent"])
    expected = [
        play(
            12,
            "RedMeanderAgent",
            n,
            lambda obs, _: int(policy.act(obs[None])[0][0]),
            policy.reset,
            seed=0,
        )
        for n in range(2)
    ]
    assert returns(evaluation) == {(12, "RedMeanderAgent"): pytest.approx(expected)}


def test_scores_do_not_depend_on_the_workers_nor_on_the_other_cells(policy):
    both = [
        returns(evaluate_actor(policy, episodes=3, seed=2, horizons=(8, 12), n_workers=n))
        for n in (1, 2)
    ]
    assert both[0] == both[1]
    alone = evaluate_actor(
        policy, episodes=2, seed=2, horizons=[12], red_agents=["SleepAgent"], n_workers=1
    )
    assert returns(alone)[12, "SleepAgent"] == both[0][12, "SleepAgent"][:2]


def test_every_episode_has_seeds_of_its_own():
    specs = [
        cell_spec(0, max_steps, red_agent, number)
        for max_steps in (30, 50, 100)
        for red_agent in RED_AGENTS
        for number in range(100)
    ]
    assert len({spec.number for spec in specs}) == len({spec.env_seed for spec in specs}) == 900


def test_a_cell_without_all_its_episodes_has_no_score(tmp_path, monkeypatch):
    broken = cell_spec(0, 3, "RedMeanderAgent", 1).env_seed

    class Broken(EvaluationEnv):
        def reset(self, *, seed=None, options=None):
            if seed == broken:
                raise ArithmeticError("the network is down")
            return super().reset(seed=seed, options=options)

    monkeypatch.setattr("workflow_rl.cage2.scoring.protocol.EvaluationEnv", Broken)
    path = tmp_path / "scores.json"
    options = ["--agent", "sleep", "--episodes", 2, "--max-steps", 3, "--json", path]
    result = run(*options, "--output-dir", tmp_path / "results")
    assert result.exit_code == 1
    line = result.output.splitlines()[-1]
    assert line.startswith("Error: ")
    assert "1 of the 6 episodes" in line
    assert "1 (RedMeanderAgent, 3 steps)" in line
    assert "ArithmeticError: the network is down" in line
    assert not path.exists()
    assert not any((tmp_path / "results").iterdir())


def test_cells_come_in_the_official_order(policy):
    evaluation = evaluate_actor(
        policy, 1, horizons=(3, 2), red_agents=("SleepAgent", "B_lineAgent"), n_workers=2
    )
    assert list(returns(evaluation)) == [
        (2, "B_lineAgent"),
        (2, "SleepAgent"),
        (3, "B_lineAgent"),
        (3, "SleepAgent"),
    ]
    assert not evaluation.is_official


def cell(*episode_returns: float, max_steps: int = 30, red_agent: str = "SleepAgent") -> CellScore:
    trajectories = [
        Trajectory(
            *(n, red_agent, 0, np.zeros(1), np.zeros(1), np.zeros(1)),
            reward=np.array([total]),
            last_obs=np.zeros(1),
            terminated=False,
            truncated=True,
        )
        for n, total in enumerate(episode_returns)
    ]
    return CellScore(max_steps, red_agent, trajectories)


def test_mean_deviation_and_interval_of_hand_computed_cells():
    # Deviations from -4: -3, 0, 3 -> sum of squares 18, / (3 - 1) = 9.
    three = cell(-7.0, -4.0, -1.0)
    assert (three.mean, three.std) == (-4.0, 3.0)
    assert three.interval_95 == pytest.approx(1.96 * 3 / math.sqrt(3))
    assert math.isnan(cell(-7.0).std)
    # Two equal independent cells: the sum's interval is sqrt(2) times as wide.
    both = ProtocolScores("x", SimulatorVersion("s", "1", "c"), 0, 1.0, [three, three])
    assert both.total == -8.0
    assert both.total_interval_95 == pytest.approx(math.sqrt(2) * three.interval_95)


def test_the_table_shows_the_leaderboards_figures_in_their_cells():
    cells = [
        cell(-1.0, -2.0, max_steps=n, red_agent=red) for n in (30, 50, 100) for red in RED_AGENTS
    ]
    evaluation = ProtocolScores("random", SimulatorVersion("s", "1", "c"), 0, 1.0, cells)
    assert evaluation.is_official
    table = score_table(evaluation)
    rows = [[str(field).strip() for field in row] for row in table.rows]
    meander_50 = next(row for row in rows if row[:2] == ["50", "RedMeanderAgent"])
    assert meander_50[2:5] == ["-1.50", "± 0.98", "0.71"]
    assert meander_50[5:] == ["-8.17", "-8.85", "-8.69", "-10.33", "-10.13", "-12.04", "-171.00"]
    assert rows[-1][:5] == ["", "total", "-13.50", "± 2.94", ""]
    totals = ["-49.94", "-85.80", "-54.57", "-56.90", "-57.05", "-95.47", "-2015.61"]
    assert rows[-1][5:] == totals
    # A line below the cells of each number of steps.
    blocks = itertools.groupby(str(table).splitlines(), lambda line: line.startswith("│"))
    assert [len(list(lines)) for is_row, lines in blocks if is_row][1:] == [3, 3, 3, 1]


@pytest.mark.parametrize("score", [*TOP_SCORES, *SCRIPTED_SCORES.values()], ids=lambda s: s.name)
def test_published_cells_add_up_to_the_published_total(score):
    known = sum(score.b_line) + sum(score.meander) + sum(score.sleep or ())
    # Where the cells of SleepAgent are not published, they can only take away.
    slack = 0.005 if score.sleep else 200
    assert known + 0.05 >= score.total >= known - slack


CELL_LINE = re.compile(r"steps: (\d+), adversary: (\w+), mean: (\S+), standard deviation (\S+)")
EPISODE_LINE = re.compile(r"actions: (\[.*\]), total reward: (\S+)")


def test_the_result_file_has_the_official_format(tmp_path):
    arguments = ["--agent", "react-restore", "--episodes", "2", "--max-steps", "15"]
    result = run(*arguments, "--output-dir", tmp_path / "results", "--author", "Ada")
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "results").iterdir()
    assert re.fullmatch(r"\d{8}_\d{6}_ReactRestoreAgent\.txt", path.name)
    lines = path.read_text().splitlines()
    assert lines[0] == "CybORG csle-cyborg 0.0.3, Scenario2, Commit Hash: 26ce1c1"
    assert lines[1] == "author: Ada, team: none, technique: ReactRestoreAgent"
    assert lines[2].startswith("wrappers: ")

    expected = evaluate_actor("react-restore", 2, horizons=(15,), n_workers=1)
    blocks = [lines[first : first + 3] for first in range(3, len(lines), 3)]
    for scored, block in zip(expected.cells, blocks, strict=True):
        steps, red_agent, mean, deviation = CELL_LINE.fullmatch(block[0]).groups()
        assert (int(steps), red_agent) == (scored.max_steps, scored.red_agent)
        assert (float(mean), float(deviation)) == (scored.mean, scored.std)
        for line, trajectory in zip(block[1:], scored.trajectories, strict=True):
            actions, total = EPISODE_LINE.fullmatch(line).groups()
            assert float(total) == trajectory.episode_return
            blue = [pair[0] for pair in ast.literal_eval(actions)]
            assert blue == [ACTION_NAMES[action] for action in trajectory.action]
    b_line = ast.literal_eval(EPISODE_LINE.fullmatch(blocks[0][1]).group(1))
    assert b_line[0][1].startswith("DiscoverRemoteSystems ")


def test_the_actions_of_a_step_are_those_of_the_record_after_it():
    records = np.zeros(3, RECORD)
    records["red_action"] = [b"", b"Impact Op_Server0", b"Sleep"]
    trajectory = (
        cell(-1.0)
        .trajectories[0]
        ._replace(obs=records[:2], last_obs=records[2, ...], action=np.array([0, 1]))
    )
    assert step_actions(trajectory) == [("Sleep", "Impact Op_Server0"), ("Monitor", "Sleep")]


def test_a_run_folders_scores_are_kept_in_it(tmp_path):
    agent = save_agent(tmp_path / "checkpoint.pt")
    options = ["--episodes", "1", "--seed", "3", "--quiet"]
    result = run(tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert "csle-cyborg 0.0.3" in result.output
    assert "older simulator" in result.output

    greedy = NumpyPolicy(agent.policy_parameters(), 7, greedy=True)
    expected = evaluate_actor(greedy, 1, 3)
    scores = json.loads((tmp_path / "evaluation.json").read_text())
    assert scores["simulator"] == {"name": "csle-cyborg", "version": "0.0.3", "commit": "26ce1c1"}
    assert (scores["actions"], scores["seed"]) == ("greedy", 3)
    assert scores["agent"] == str(tmp_path / "checkpoint.pt")
    assert scores["official_protocol"] is True
    assert scores["total"] == pytest.approx(expected.total)
    by_cell = {(cell["max_steps"], cell["red_agent"]): cell["returns"] for cell in scores["cells"]}
    assert by_cell == returns(expected)

    # Fewer episodes take the place of more, and say so.
    written = f"scores: {tmp_path / 'evaluation.json'}"
    assert result.output.endswith(f"{written}\n")
    scores["cells"][4]["episodes"] = 100
    (tmp_path / "evaluation.json").write_text(json.dumps(scores))
    again = run(tmp_path, *options)
    assert f"{written} (in the place of those of 100 episodes a cell)" in again.output
    assert "nan" not in again.output

    # Another checkpoint, sampled actions or part of the cells leave the run's own scores alone.
    before = (tmp_path / "evaluation.json").read_bytes()
    for other in (["--stochastic"], ["--which", "latest"], ["--max-steps", "5"]):
        assert run(tmp_path, "--max-steps", "6", *other, "--episodes", "1").exit_code == 0
    assert (tmp_path / "evaluation.json").read_bytes() == before
    sampled = run(
        tmp_path, *options, "--max-steps", 3, "--stochastic", "--json", tmp_path / "sampled.json"
    )
    assert sampled.exit_code == 0, sampled.output
    assert json.loads((tmp_path / "sampled.json").read_text())["actions"] == "sampled"


def test_one_episode_has_no_deviation(tmp_path):
    path = tmp_path / "scores.json"
    result = run("--agent", "sleep", "--episodes", 1, "--max-steps", 2, "--json", path)
    assert result.exit_code == 0, result.output
    scores = json.loads(path.read_text())
    assert scores["cells"][0]["std"] is None
    assert scores["total_interval_95"] is None


def test_the_policy_is_the_checkpoints_actor(tmp_path):
    agent = save_agent(tmp_path / "checkpoint.pt")
    policy = load_actor(tmp_path / "checkpoint.pt")
    assert policy.greedy
    assert policy.policy_version == 7
    obs = np.random.default_rng(0).integers(0, 2, (20, 52)).astype(np.float32)
    with torch.no_grad():
        logits = agent.network(torch.from_numpy(obs))[0].numpy()
    np.testing.assert_allclose(policy.outputs(obs), logits, atol=1e-6)


@pytest.mark.parametrize("load", [load_actor, load_saved_policy, load_agent])
def test_agents_are_loaded_by_any_path_and_act_on_one_observation(tmp_path, load):
    save_agent(tmp_path / "checkpoint.pt")
    obs = np.random.default_rng(0).integers(0, 2, (20, 52)).astype(np.uint8)
    expected = load_actor(tmp_path / "checkpoint.pt").act(obs, [0] * 20)[0].tolist()
    for path in (tmp_path, str(tmp_path), str(tmp_path / "checkpoint.pt")):
        agent = load(path)
        acts = [agent.act(one.astype(np.float32)) for one in obs]
        if load is not load_agent:
            acts = [actions.item() for actions, _ in acts]
        assert acts == expected


def test_the_best_checkpoint_of_a_run_is_preferred(tmp_path):
    latest, best = tmp_path / "checkpoint.pt", tmp_path / "best.pt"
    latest.touch()
    assert checkpoint_path(tmp_path) == latest
    best.touch()
    assert checkpoint_path(tmp_path) == checkpoint_path(tmp_path, "best") == best
    assert checkpoint_path(tmp_path, "latest") == latest
    assert checkpoint_path(latest) == latest


def test_exactly_one_agent_must_be_named(tmp_path):
    assert "or a scripted agent's name" in error_line(run())
    assert "or a scripted agent's name" in error_line(run(tmp_path, "--agent", "sleep"))


def test_options_that_do_not_go_together_are_refused(tmp_path):
    assert "--stochastic" in error_line(run("--agent", "sleep", "--stochastic"))
    assert "--which best" in error_line(run("--agent", "sleep", "--which", "best"))
    upstream = ("--simulator", "cyborg-upstream", "--stock-simulator")
    assert "--stock-simulator" in error_line(run("--agent", "sleep", *upstream))


def test_a_missing_checkpoint_is_named(tmp_path):
    assert str(tmp_path / "no.pt") in error_line(run(tmp_path / "no.pt"))
    assert str(tmp_path / "checkpoint.pt") in error_line(run(tmp_path))


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_agent(path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"not a checkpoint"):
        path.write_bytes(damaged)
        assert str(path) in error_line(run(path))


def test_a_checkpoint_without_a_network_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, Checkpoint({"settings": {}}, {}, TrainingState()))
    assert str(path) in error_line(run(path))


def test_an_agent_for_another_environment_is_said_to_be_one(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_episodes=2, episodes_per_update=2)
    train(config, tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match="was trained on CartPole-v1, not on CAGE-2"):
        load_trained(tmp_path / "run")


@pytest.mark.parametrize(("obs_dim", "n_actions"), [(62, 145), (52, 36)])
def test_a_network_of_another_shape_is_refused(tmp_path, obs_dim, n_actions):
    path = tmp_path / "checkpoint.pt"
    save_agent(path, obs_dim, n_actions)
    line = error_line(run(path))
    assert "another shape" in line
    assert str(obs_dim if obs_dim != 52 else n_actions) in line


@pytest.fixture
def must_not_play(monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("episodes were played before the outputs were checked")

    monkeypatch.setattr("workflow_rl.cage2.scoring.scoring.evaluate_actor", fail)


@pytest.mark.usefixtures("must_not_play")
def test_outputs_that_cannot_be_written_are_found_before_the_episodes(tmp_path):
    a_file = tmp_path / "a file"
    a_file.touch()
    for option, path in (
        ("--json", tmp_path / "nowhere" / "scores.json"),
        ("--json", tmp_path),
        ("--json", a_file / "scores.json"),
        ("--output-dir", a_file),
    ):
        line = error_line(run("--agent", "sleep", option, path))
        assert option in line
        assert str(path) in line
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


@pytest.mark.usefixtures("must_not_play")
def test_the_upstream_simulator_must_be_installed():
    if simulator_version("cyborg-upstream").version != "unknown":
        pytest.skip("CybORG is installed")
    line = error_line(run("--agent", "sleep", "--simulator", "cyborg-upstream"))
    assert "CybORG" in line
