"""Whatever trains can be evaluated, resumed, exported and loaded, or is refused before training, as
`check-env` has said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import call, said_by
from tests.drawn_envs import drawn
from workflow_rl import TrainConfig, evaluate, learning_curves, load_agent, train
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import read_metrics

pytestmark = pytest.mark.system

ENV = "tests.drawn_envs:drawn"
SETTINGS = {"hidden_sizes": (4,), "epochs": 1, "minibatch_size": 16}
OF_DRAWN = {"trust": True, "n_workers": 1}


def config_of(number: int, episodes: int = 4) -> TrainConfig:
    return TrainConfig(
        ("sync", "async")[number // 2 % 2],
        env=ENV,
        env_args={"number": number},
        total_episodes=episodes,
        episodes_per_update=2,
        n_envs=2,
        n_workers=1,
        seed=number,
        settings=SETTINGS,
    )


def require_round_trip(number: int, path: Path) -> bool:
    run = path / "run"
    problem = ""
    checked = call("check-env", ENV, f"--env-arg number={number} --steps 50 --seconds 1")
    try:
        train(config_of(number), run, trust=True)
    except ConfigError as error:
        problem = str(error)
    if problem:
        assert "\n" not in problem
        assert len(problem) < 1000
        assert not (run / "metrics.csv").exists()
        assert not (run / "checkpoint.safetensors").exists()
        assert checked.exit_code != 0
        return False
    assert checked.exit_code == 0, checked.output
    assert [row["update"] for row in read_metrics(run)] == [1, 2]
    played = evaluate(run, episodes=3, **OF_DRAWN)
    train(config_of(number, 6), run, resume=True, trust=True)
    assert [row["update"] for row in read_metrics(run)] == [1, 2, 3]
    learning_curves(run)
    exported = path / "agent.npz"
    said_by("export", run, "--format npz --trust --output", exported)
    again = evaluate(run, episodes=3, **OF_DRAWN)
    assert evaluate(exported, episodes=3, **OF_DRAWN).returns == again.returns
    assert len(played.returns) == len(again.returns)
    _require_same_actions(
        drawn(number), load_agent(run, trust=True), load_agent(exported, trust=True)
    )
    return True


def _require_same_actions(env: Any, *agents: Any) -> None:
    obs, info = env.reset(seed=5)
    if hasattr(env, "possible_agents"):
        left, right = (agent.act(obs, info) for agent in agents)
        assert left == right
        assert all(env.action_space(one).contains(action) for one, action in left.items())
        return
    mask = env.mask if env.mask_in in ("info", "method") else None
    left, right = (agent.act(obs, mask) for agent in agents)
    np.testing.assert_array_equal(left, right)
    assert env.action_space.contains(left)


# One agent's, a team, one that is refused, and a team of which an agent has numbers.
@pytest.mark.parametrize("number", [36, 5, 22, 85])
def test_a_drawn_environment_goes_all_the_way_or_is_refused(number, tmp_path):
    require_round_trip(number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2, 202, 20))
def test_200_drawn_environments_go_all_the_way_or_are_refused(first, tmp_path):
    trained = [require_round_trip(n, tmp_path / str(n)) for n in range(first, first + 20)]
    assert any(trained)
