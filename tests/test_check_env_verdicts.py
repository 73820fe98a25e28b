import importlib.util
import sys
from pathlib import Path

import pytest

from tests.processes import ended

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TRAIN = (
    *("Acrobot-v1", "Blackjack-v1", "CartPole-v1", "CliffWalking-v1", "FrozenLake-v1"),
    *("MountainCarContinuous-v0", "Pendulum-v1", "Taxi-v4", "LunarLander-v3", "BipedalWalker-v3"),
    *("Hopper-v5", "InvertedPendulum-v5", "Swimmer-v5", "MountainCar-v0"),
    *("pettingzoo.classic.tictactoe_v3:env", "pettingzoo.classic.connect_four_v3:env"),
    *("pettingzoo.classic.rps_v2:env", "pettingzoo.sisl.multiwalker_v9:parallel_env"),
    *("tests.any_envs:PuzzleEnv", "tests.any_envs:MaskedPuzzleEnv", "tests.any_envs:PictureEnv"),
    *("tests.any_envs:NamedPuzzleEnv", "tests.any_envs:EndingEnv --env-arg terminates=true"),
    *("tests.tiny_teams:Kinds", "tests.tiny_teams:ShiftEnv", "tests.tiny_teams:Shifts"),
    *("tests.tiny_turns:Repeat", "examples.small_games:Kuhn", "examples.own_simulator:Corridors"),
)
FAIL = ("tests.any_envs:TextEnv", "tests.any_envs:NamedActionEnv", "tests.any_envs:BrokenEnv")
ELSEWHERE = {
    "minigrid": ("minigrid:MiniGrid-Empty-5x5-v0",),
    "ale_py": ("ale_py:ALE/Breakout-v5",),
    "highway_env": ("highway_env:highway-fast-v0",),
    "smaclite": ("smaclite:smaclite/2s3z-v0",),
    "mpe2": ("mpe2.simple_spread_v3:parallel_env", "mpe2.simple_tag_v3:env"),
}
"""Environments of packages that are not installed everywhere."""
SMALL = (
    *("--total-episodes", "4", "--episodes-per-update", "2", "--n-envs", "2"),
    *("--n-workers", "1", "--quiet"),
)


def verdict_is_right(env: str, path: Path) -> bool:
    """Whether check-env finds what a training finds. Returns whether the environment trains."""
    words = env.split()
    package = [sys.executable, "-m", "workflow_rl"]
    found = ended(*package, "check-env", *words, "--steps", "50", "--seconds", "1")
    trained = ended(*package, "train-async", "--env", *words, *SMALL, "--run-dir", path)
    told = found.stdout + found.stderr + trained.stdout + trained.stderr
    assert (found.returncode == 0) == (trained.returncode == 0), told
    assert "Traceback" not in told
    return trained.returncode == 0


@pytest.mark.parametrize("env", TRAIN)
def test_what_trains_is_said_to_train(env, tmp_path):
    assert verdict_is_right(env, tmp_path / "run")


@pytest.mark.parametrize("env", FAIL)
def test_what_does_not_train_is_said_not_to(env, tmp_path):
    assert not verdict_is_right(env, tmp_path / "run")


@pytest.mark.parametrize("package", ELSEWHERE)
def test_environments_of_further_packages(package, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    for n, env in enumerate(ELSEWHERE[package]):
        assert verdict_is_right(env, tmp_path / str(n))
