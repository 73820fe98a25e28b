"""What runs make of an environment's answers: ends of episodes, and what is no number of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tiny_runs import same_weights
from tests.workflow_rl.runs.any_env_runs import config_of, run
from workflow_rl import api
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.collection.failures import TooManyFailuresError
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.errors import ObservationError
from workflow_rl.runs import learner
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import read_config


def critic_at(path: Path, obs: list[float]) -> float:
    agent = learner.make_agent(read_config(path))
    agent.load_state_dict(load_checkpoint(path / "checkpoint.safetensors").agent)
    with torch.no_grad():
        return float(agent.network.critic(torch.tensor([obs])))


@pytest.mark.parametrize(
    ("terminates", "value"),
    # One reward of 1, and nothing after; or 1 + 1/2 + 1/4 + ... as far as the critic knows.
    [(True, 1.0), (False, 2.0)],
)
@pytest.mark.parametrize("kind", ["episodes", "unrolls"])
def test_only_a_truncated_episode_has_rewards_to_come(
    terminates: bool, value: float, kind: str, tmp_path: Path
) -> None:
    ppo = PPOConfig(
        hidden_sizes=(8,),
        learning_rate=4e-2,
        discount=0.5,
        epochs=10,
        minibatch_size=80,
        reward_scale=1.0,
    )
    args = {"terminates": terminates}
    config = config_of(
        "tests.any_envs:EndingEnv", kind, env_args=args, settings=ppo, total_steps=720, n_workers=1
    )
    run(tmp_path / "run", config)
    assert critic_at(tmp_path / "run", [1.0]) == pytest.approx(value, abs=0.1)


@pytest.mark.parametrize(
    ("what", "step", "kind", "mode"),
    [
        ("observation", 3, "episodes", "sync"),
        ("reward", 2, "lagged", "async"),
        ("reward", 2, "lagged unrolls", "async"),
        ("observation", 5, "episodes", "async"),  # The last one: no action follows.
        ("observation", 5, "lagged unrolls", "async"),
    ],
)
def test_a_number_that_is_none_ends_the_run_and_spoils_nothing(
    what: str, step: int, kind: str, mode: str, tmp_path: Path
) -> None:
    switch = tmp_path / "switch"
    at = step if what == "observation" else step + 1
    seed = episode_spec(3, 37).env_seed
    args = {"what": what, "bad_seed": seed, "switch": str(switch), "at": at}
    config = config_of("tests.lying_envs:SpoiltEnv", kind, mode, env_args=args)
    run(tmp_path / "good", config)
    switch.touch()
    with pytest.raises(ObservationError) as error:
        run(tmp_path / "bad", config)
    assert f"{what} is not finite at step {step} of episode 37:" in str(error.value)
    with np.load(tmp_path / "bad" / "diverged.npz") as batch:
        names = ("obs", "last_obs") if what == "observation" else ("reward",)
        assert not all(np.isfinite(batch[name]).all() for name in names)
    saved = load_checkpoint(tmp_path / "bad" / "checkpoint.safetensors")
    assert 1 <= saved.training.updates < 5
    assert all(torch.isfinite(tensor).all() for tensor in saved.agent["network"].values())
    switch.unlink()
    run(tmp_path / "bad", config)
    assert same_weights(tmp_path / "bad", tmp_path / "good")


@pytest.mark.parametrize(
    ("shown", "how", "kind", "mode"),
    [
        ([0.0] * 3, "has shape (3,), not (2,)", "episodes", "async"),
        ([0.0], "has shape (1,), not (2,)", "episodes", "sync"),
        ([0.0] * 3, "has shape (3,), not (2,)", "lagged unrolls", "async"),
        ([[0.0], [0.0, 1.0]], "cannot be used: ValueError: ", "lagged", "async"),
        (["1", "2"], "is of <U1, not float32", "episodes", "async"),
        (["a", "b"], "cannot be used: ", "episodes", "async"),
    ],
)
def test_an_observation_that_its_space_does_not_hold_ends_the_run_at_once(
    shown: Any,
    how: str,
    kind: str,
    mode: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    args = {"shown": shown, "bad_seed": episode_spec(3, 37).env_seed}
    config = config_of("tests.lying_envs:MisshapenEnv", kind, mode, env_args=args)
    with pytest.raises(TooManyFailuresError) as error:
        run(tmp_path / "run", config)
    where = "in episode 37 the environment's observation of step 3"
    assert str(error.value).startswith(f"{where} {how}")
    assert str(error.value).endswith("; its space is Box(-inf, inf, (2,), float32)")
    assert "\n" not in str(error.value)
    assert not [one for one in caplog.records if "replaced" in one.getMessage()]
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert 1 <= saved.training.updates < 5


@pytest.mark.parametrize(
    ("size", "kind", "mode"),
    [(1e300, "episodes", "async"), (-1e13, "lagged unrolls", "async"), (1e20, "episodes", "sync")],
)
def test_a_reward_that_outweighs_all_others_is_told_once(
    size: float, kind: str, mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = {"bad_seed": episode_spec(3, 37).env_seed, "size": size}
    run(tmp_path / "run", config_of("tests.lying_envs:HugeRewardEnv", kind, mode, env_args=args))
    told = [one for one in caplog.messages if "outweighs" in one]
    assert len(told) == 1
    assert f"the reward of {size:g} at step 2 of episode 37 outweighs all others" in told[0]


def test_an_evaluation_tells_of_it_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad_seed = episode_spec(0, 1, (), SeedStream.EVALUATION).env_seed
    args = {"bad_seed": bad_seed, "size": -1e300}
    run(tmp_path / "run", config_of("tests.lying_envs:HugeRewardEnv", env_args=args))
    assert "outweighs" not in caplog.text
    scores: Any = api.evaluate(tmp_path / "run", 3, n_workers=1)
    assert "the reward of -1e+300 at step 2 of episode 1 outweighs" in caplog.text
    lines = str(scores.lines("it")).splitlines()
    assert max(map(len, lines)) < 1000, "numbers of 300 digits are no table"


def test_a_large_reward_that_is_usual_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = {"bad_seed": episode_spec(3, 37).env_seed, "size": 1e11}
    run(tmp_path / "run", config_of("tests.lying_envs:HugeRewardEnv", "episodes", env_args=args))
    assert "outweighs" not in caplog.text
