from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from workflow_rl.cage4.agent.champion import AGENT_FILE, WEIGHTS

from workflow_rl import load_agent
from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.scenario4 import ENV_ID
from workflow_rl.commands.main import main
from workflow_rl.environments.env_batch import ObservationError
from workflow_rl.environments.environment import InvalidEnvironmentError


@pytest.mark.parametrize("name", ["champion", "rules", "random"])
def test_a_team_of_this_name_plays_as_it_is_scored(name: str) -> None:
    player, team = load_agent(name, env=ENV_ID), make_scripted_team(name)
    env = parallel_env(max_steps=20)
    for seed in (3, 4):
        observations, infos = env.reset(seed=seed)
        player.reset(seed)
        team.reset([np.asarray(infos[one]["action_mask"], bool) for one in env.agents], seed)
        while env.agents:
            actions, _ = team.act([observations[one] for one in env.agents])
            assert player.act(observations, infos) == dict(zip(env.agents, actions, strict=True))
            observations, *_, infos = env.step(dict(zip(env.agents, actions, strict=True)))


def test_the_folder_of_a_champions_run_needs_no_name(tmp_path: Path) -> None:
    shutil.copy(WEIGHTS, tmp_path / AGENT_FILE)
    env = parallel_env(max_steps=5)
    assert len(load_agent(tmp_path).act(*env.reset(seed=0))) == 5


def test_what_the_team_lacks_is_named() -> None:
    team = load_agent("rules", env=ENV_ID)
    observations, infos = parallel_env(max_steps=5).reset(seed=0)
    with pytest.raises(ObservationError, match="'blue_agent_0' is missing"):
        team.act(observations, {})
    long = {**observations, "blue_agent_3": np.zeros(95, np.int64)}
    with pytest.raises(ObservationError, match=r"blue_agent_3's observation .*\(95,\)"):
        team.act(long, infos)
    del observations["blue_agent_3"]
    with pytest.raises(ObservationError, match="'blue_agent_3' is missing"):
        team.act(observations, infos)
    with pytest.raises(InvalidEnvironmentError, match="'CAGE4': choose one of"):
        load_agent("rules", env="CAGE4")


def test_an_unknown_agent_is_told_the_known_names() -> None:
    result = CliRunner().invoke(main, ["evaluate", "rule", "--env", ENV_ID])
    assert result.exit_code == 2
    message = " ".join(result.output.split())
    assert "nor an agent of this name on workflow_rl/CAGE4-v0: choose one of champion, " in message
    assert "Did you mean rules?" in message
