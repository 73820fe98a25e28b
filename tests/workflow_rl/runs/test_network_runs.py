"""Runs with networks that remember, on several choices with masks: the same weights whatever
happens on the way."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.any_envs import MaskedPuzzleEnv
from tests.faulty_env import FaultyEnv
from tests.tiny_runs import run, same_weights
from workflow_rl import api
from workflow_rl.collection.failures import StopRequested
from workflow_rl.errors import ObservationError, UserError
from workflow_rl.runs.agent_from_checkpoint import restored_agent
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.make_agent import make_agent

pytestmark = pytest.mark.system

SETTINGS = {"hidden_sizes": (8, 8), "minibatch_size": 50, "epochs": 1, "reward_scale": 1.0}
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {"steps_per_update": 60},
    "unrolls": {"num_steps_per_env": 6, "steps_per_update": 60},
    "lagged": {"steps_per_update": 60, "async_rl": True},
    "lagged unrolls": {"num_steps_per_env": 6, "steps_per_update": 60, "async_rl": True},
}


def config_of(network: str, kind: str = "episodes", mode: str = "async", **changes: Any) -> Any:
    given: dict[str, Any] = {
        **{"n_envs": 5, "n_workers": 2, "total_steps": 300, "seed": 3, "device": "cpu"},
        **{"env": "tests.any_envs:MaskedPuzzleEnv", "settings": {**SETTINGS, "network": network}},
        **KINDS[kind],
        **changes,
    }
    return TrainConfig(mode, **given)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """An undisturbed run of a network and a kind."""

    @functools.cache
    def path_of(network: str, kind: str) -> Path:
        path = tmp_path_factory.mktemp("runs") / "reference"
        run(path, config_of(network, kind))
        return path

    return path_of


@pytest.mark.parametrize(
    ("network", "kind", "mode", "n_workers"),
    [
        ("mlp", "episodes", "sync", 5),
        ("gru", "episodes", "async", 5),
        ("gru", "unrolls", "sync", 5),
        ("gru", "lagged unrolls", "async", 1),
        ("lstm", "lagged", "sync", 1),
        ("lstm", "unrolls", "async", 5),
        ("frame-stack", "episodes", "sync", 5),
        ("frame-stack", "unrolls", "async", 1),
        ("entities", "episodes", "sync", 5),
        ("entities", "lagged unrolls", "async", 1),
    ],
)
def test_same_weights_whatever_the_workers_and_the_mode(
    network: str, kind: str, mode: str, n_workers: int, reference: Any, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of(network, kind, mode, n_workers=n_workers))
    assert same_weights(tmp_path / "run", reference(network, kind))


@pytest.mark.parametrize(
    ("network", "mode", "kind"),
    [
        ("gru", "async", "episodes"),
        ("gru", "sync", "unrolls"),
        ("lstm", "async", "unrolls"),
        ("frame-stack", "async", "unrolls"),
        ("entities", "async", "episodes"),
    ],
)
def test_same_weights_when_a_worker_dies_in_the_middle_of_an_episode(
    network: str, mode: str, kind: str, reference: Any, tmp_path: Path
) -> None:
    tickets = [tmp_path / "ticket"]

    def make_env() -> FaultyEnv:
        return FaultyEnv(MaskedPuzzleEnv, "killed", "step", 45, tickets)

    summary = run(tmp_path / "run", config_of(network, kind, mode, make_env=make_env))
    assert summary["workers_restarted"] == 1
    assert same_weights(tmp_path / "run", reference(network, kind))


@pytest.mark.parametrize("kind", ["episodes", "unrolls", "lagged unrolls"])
def test_a_stopped_run_goes_on_to_the_same_weights(
    kind: str, reference: Any, tmp_path: Path
) -> None:
    def stop(pool: Any, policy: Any, count: int) -> None:
        if count == 2:
            pool.stop_signal = signal.SIGINT

    config = config_of("gru", kind)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config, stop)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").training.updates <= 2
    run(tmp_path / "run", config)
    assert same_weights(tmp_path / "run", reference("gru", kind))


def test_the_mask_is_learned_from_wherever_it_is_offered(reference: Any, tmp_path: Path) -> None:
    in_obs = config_of("gru", env_args={"in_obs": True})
    run(tmp_path / "obs", in_obs)
    assert same_weights(tmp_path / "obs", reference("gru", "episodes"))


@pytest.mark.parametrize("network", ["gru", "entities"])
def test_a_critic_that_sees_more_learns_the_same_everywhere(network: str, tmp_path: Path) -> None:
    args = {"privileged": True}
    for mode, n_workers in (("async", 1), ("sync", 5)):
        config = config_of(network, "lagged unrolls", mode, n_workers=n_workers, env_args=args)
        run(tmp_path / mode, config)
    assert same_weights(tmp_path / "async", tmp_path / "sync")
    path = tmp_path / "async"
    assert len(api.evaluate(path, 5, env=functools.partial(MaskedPuzzleEnv)).returns) == 5
    agent, env = api.load_agent(path, env=MaskedPuzzleEnv), MaskedPuzzleEnv()
    agent.reset()
    obs, info = env.reset(seed=5)  # Without what the critic saw.
    assert env.action_space.contains(agent.act(obs, action_mask=info["action_mask"]))


def test_an_agent_with_memory_and_masks_is_used(reference: Any) -> None:
    path = reference("gru", "episodes")
    scores = [api.evaluate(path, 20, n_workers=n, env=MaskedPuzzleEnv).returns for n in (1, 2)]
    assert list(scores[0]) == list(scores[1])
    agent, env = api.load_agent(path, env=MaskedPuzzleEnv), MaskedPuzzleEnv()
    total, ended = 0.0, False
    agent.reset()
    obs, info = env.reset(seed=5)
    while not ended:  # The environment raises for an impossible action.
        action = agent.act(obs, action_mask=info["action_mask"])
        obs, reward, terminated, truncated, info = env.step(action)
        total, ended = total + reward, terminated or truncated
    assert np.isfinite(total)


@pytest.mark.parametrize(
    ("env_args", "words"),
    [
        ({"forbids_all_at": 3}, r"in episode \d+ the action mask of step 3 forbids every action"),
        ({"missing_at": 2}, r"in episode \d+ the action mask of step 2 is missing"),
    ],
)
def test_a_mask_that_cannot_be_used_ends_the_run_in_one_line(
    env_args: dict[str, int], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=words) as caught:
        run(tmp_path / "run", config_of("mlp", env_args=env_args))
    assert "\n" not in str(caught.value).strip()
    assert not isinstance(caught.value, ObservationError)


def test_without_masks_the_policy_sees_none(tmp_path: Path) -> None:
    config = config_of("mlp", action_mask=False, env="tests.any_envs:PuzzleEnv")
    masked = config_of("mlp")
    assert not config.environment.spaces().masked
    assert masked.environment.spaces().masked
    run(tmp_path / "run", config)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    agent = make_agent(masked)
    with pytest.raises(UserError, match="masks of actions"):
        restored_agent(agent, checkpoint, tmp_path / "run")
