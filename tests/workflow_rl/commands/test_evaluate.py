"""The command `evaluate` and the end of a run: options of each environment, and what is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.workflow_rl.commands.any_env_commands import invoke, refused
from workflow_rl import TrainConfig, train
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores
from workflow_rl.cage2.scoring.scoring import Cage2Scoring, ProtocolSettings
from workflow_rl.commands.evaluate import evaluate
from workflow_rl.errors import ConfigError


def scores(*trained_against: str) -> ProtocolScores:
    """Cells whose mean is the episode's length, negated."""
    cells = [
        CellScore(max_steps, red_agent, [trajectory(-float(max_steps))] * 2)
        for max_steps in HORIZONS
        for red_agent in RED_AGENTS
    ]
    version = SimulatorVersion("csle-cyborg", "0.0.3", "26ce1c1")
    return ProtocolScores("an agent", version, 0, 1.0, cells, trained_against=trained_against)


def trajectory(reward: float) -> Trajectory:
    empty = np.zeros(1)
    return Trajectory(
        *(0, "", 0, empty, empty, empty),
        reward=np.array([reward]),
        last_obs=empty,
        terminated=False,
        truncated=True,
    )


def test_a_run_against_one_attacker_ends_with_that_attackers_cells() -> None:
    first, *others = scores("B_lineAgent").closing_lines("it")
    assert "-30.0 after 30, -50.0 after 50, -100.0 after 100" in first
    assert "sum -180.0" in first
    assert "(the champion's sum: -22.0)" in first
    assert len(others) == 2
    assert "Meander" not in "".join([first, *others])


def test_a_run_against_all_ends_with_three_lines() -> None:
    against_all = scores(*RED_AGENTS)
    closing = against_all.closing_lines("it")
    assert len(closing) == 3
    assert "-540.0" in closing[0]
    assert "-540.00" in against_all.lines("it")[0]


def test_an_agent_that_sees_the_true_state_is_not_scored() -> None:
    with pytest.raises(ConfigError, match="true-state"):
        Cage2Scoring().settings_for({"simulator": "compiled", "observation": "true-state"})


def test_only_all_cells_are_the_agents_own_scores() -> None:
    scoring = Cage2Scoring()
    assert scoring.is_whole(ProtocolSettings(max_steps=(100, 50, 30)))
    assert not scoring.is_whole(ProtocolSettings(max_steps=(30,)))
    assert not scoring.is_whole(ProtocolSettings(red_agent=("B_lineAgent",)))


def test_the_end_of_a_run_writes_all_scores(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ["--simulator", "compiled", "--red-agent", "B_lineAgent", "--total-episodes", "4"]
    options += ["--n-envs", "4", "--episodes-per-update", "4", "--hidden-sizes", "4", "--quiet"]
    result = CliRunner().invoke(
        train_async, [*options, "--final-evaluation", "1", "--run-dir", str(run)]
    )
    assert result.exit_code == 0, result.output
    assert "(the champion's sum: -22.0)" in result.output
    written = json.loads((run / "evaluation.json").read_text())
    assert len(written["cells"]) == 9
    assert written["actions"] == "greedy"
    evaluated = CliRunner().invoke(evaluate, [str(run), "--episodes", "1", "--quiet"])
    assert evaluated.exit_code == 0, evaluated.output
    again = json.loads((run / "evaluation.json").read_text())
    assert {**again, "seconds": 0} == {**written, "seconds": 0}


@pytest.fixture(scope="module")
def cart_pole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainConfig(
        *("async", 2), n_workers=1, env="CartPole-v1", total_episodes=2, episodes_per_update=2
    )
    return train(config, tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.parametrize("option", ["--red-agent", "--max-steps", "--simulator", "--author"])
def test_an_option_of_another_environment_is_refused(option: str, cart_pole: Path) -> None:
    values = {"--red-agent": "B_lineAgent", "--max-steps": "30", "--simulator": "cyborg"}
    result = CliRunner().invoke(evaluate, [str(cart_pole), option, values.get(option, "Ada")])
    assert result.exit_code == 2
    line = result.output.splitlines()[-1]
    assert option in line
    assert "CartPole-v1" in line


def test_a_video_is_not_for_cage2(tmp_path: Path) -> None:
    result = CliRunner().invoke(evaluate, ["champion", "--video", str(tmp_path / "videos")])
    assert result.exit_code == 2
    assert "--video" in result.output.splitlines()[-1]


@pytest.mark.parametrize(("agent", "is_function"), [("rules:act", True), ("rules", False)])
def test_who_scores_a_function_is_told_the_command(agent: str, is_function: bool) -> None:
    result = CliRunner().invoke(evaluate, [agent])
    assert result.exit_code == 2
    assert ("record scores a function." in " ".join(result.output.split())) == is_function


@pytest.mark.parametrize("option", [["--env", "module:Class"], ["--env", "Acrobot-v1"]])
def test_another_environment_than_the_agents_is_named(option: list[str], cart_pole: Path) -> None:
    refused(invoke("evaluate", str(cart_pole), *option), *option, "trained on, CartPole-v1: leave")
    refused(invoke("evaluate", "module:function", *option), "record scores a function")


def test_the_environment_of_an_agent_may_be_named(cart_pole: Path) -> None:
    assert invoke("evaluate", str(cart_pole), "--env", "CartPole-v1", "--quiet").exit_code == 0


@pytest.mark.parametrize("command", ["evaluate", "replay", "record", "train-async --teacher"])
def test_a_missing_run_is_a_missing_run(command: str) -> None:
    file = ["file.npz"] if command == "record" else []
    result = invoke(*command.split(), "runs/robust-2", *file)
    refused(result, "there is no checkpoint at runs/robust-2")
    assert "Did you mean" not in result.output
    assert "name" not in result.output.splitlines()[-1]


def test_compare_is_advised_only_where_it_finds_scores(tmp_path: Path) -> None:
    tiny = "--simulator compiled --total-episodes 4 --n-envs 2 --n-workers 1 --hidden-sizes 4"
    words = f"train-async {tiny} --max-steps 5 --n-policies 2 --quiet --run-dir {tmp_path / 'two'}"
    assert invoke(*words.split()).exit_code == 0
    both = [str(tmp_path / "two" / f"policy-{number}") for number in (0, 1)]
    part = ["--episodes", "1", "--quiet", "--red-agent", "B_lineAgent", "--max-steps", "5"]
    assert "together: " not in invoke("evaluate", *both, *part).output
    alone = invoke("evaluate", str(tmp_path / "two"), *part).output
    assert "policy alone" not in alone
    assert "policy alone" not in invoke("evaluate", both[0], *part[:3]).output
