"""Whole small runs on Gymnasium environments: the same weights whatever happens on the way."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.any_envs import PuzzleEnv, TalkingPuzzleEnv
from tests.faulty_env import FaultyEnv
from tests.tiny_runs import same_weights
from tests.workflow_rl.runs.any_env_runs import ENVS, config_of, run, stop_at
from workflow_rl import evaluate, load_agent
from workflow_rl.collection.failures import StopRequested
from workflow_rl.errors import ConfigError
from workflow_rl.runs import learner
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.export import export_policy
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.runs.saved_agent import load_saved


@pytest.mark.parametrize(
    ("env", "mode", "n_workers"),
    [
        ("CartPole", "async", 1),
        ("CartPole", "sync", 2),
        ("Pendulum", "async", 5),
        ("Puzzle", "async", 1),
        ("Puzzle", "sync", 2),
    ],
)
def test_same_weights_whatever_the_workers_and_the_mode(
    env: str, mode: str, n_workers: int, undisturbed: Any, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of(env, "episodes", mode, n_workers=n_workers))
    assert same_weights(tmp_path / "run", undisturbed(env, "episodes"))


def test_entries_that_are_left_out_change_no_weights(tmp_path: Path) -> None:
    env = "tests.any_envs:TalkingPuzzleEnv"
    with pytest.raises(ConfigError, match="--ignore-unknown leaves such entries of a Dict out"):
        run(tmp_path / "refused", config_of(env))
    asked = config_of(env, ignore_unknown=True)
    run(tmp_path / "loud", config_of("tests.any_envs:LoudPuzzleEnv"))
    run(tmp_path / "talking", asked)
    assert same_weights(tmp_path / "talking", tmp_path / "loud")
    exported = tmp_path / "talking.npz"
    agent = load_saved(tmp_path / "talking")
    export_policy(agent.policy.parameters, agent.environment, "npz", exported)
    obs, _ = TalkingPuzzleEnv().reset(seed=1)
    actions = [load_agent(path).act(obs) for path in (tmp_path / "talking", exported)]
    assert actions[0].tolist() == actions[1].tolist()
    assert evaluate(exported, 2).returns == evaluate(tmp_path / "loud", 2).returns


def test_masks_of_a_method_and_actions_by_name_change_no_weights(tmp_path: Path) -> None:
    run(tmp_path / "plain", config_of("tests.any_envs:MaskedPuzzleEnv"))
    for mode, n_workers in (("async", 1), ("async", 5), ("sync", 2)):
        path = tmp_path / f"{mode}-{n_workers}"
        run(path, config_of("tests.any_envs:NamedPuzzleEnv", mode=mode, n_workers=n_workers))
        assert same_weights(path, tmp_path / "plain")


@pytest.mark.parametrize(
    ("env", "kind", "mode", "n_workers"),
    [
        ("CartPole", "unrolls", "sync", 5),
        ("Pendulum", "lagged", "sync", 3),
        ("Pendulum", "lagged unrolls", "async", 5),
        ("Puzzle", "lagged", "async", 5),
        ("Puzzle", "unrolls", "async", 1),
    ],
)
def test_same_weights_with_a_lag_and_with_unrolls_too(
    env: str, kind: str, mode: str, n_workers: int, undisturbed: Any, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of(env, kind, mode, n_workers=n_workers))
    assert same_weights(tmp_path / "run", undisturbed(env, kind))


@pytest.mark.parametrize("env", ENVS)
def test_every_setting_that_is_to_change_the_weights_does(env: str, undisturbed: Any) -> None:
    before = learner.make_agent(config_of(env)).network.state_dict()
    after = load_checkpoint(undisturbed(env, "episodes") / "checkpoint.safetensors").agent[
        "network"
    ]
    assert not any(torch.equal(before[name], after[name]) for name in after)
    assert not same_weights(undisturbed(env, "episodes"), undisturbed(env, "lagged"))


def test_another_seed_gives_other_weights(undisturbed: Any, tmp_path: Path) -> None:
    run(tmp_path / "run", config_of(seed=4))
    assert not same_weights(tmp_path / "run", undisturbed("Puzzle", "episodes"))


@pytest.mark.parametrize(
    ("env", "kind", "mode"),
    [
        ("CartPole", "episodes", "async"),
        ("Puzzle", "lagged", "sync"),
        ("Pendulum", "lagged unrolls", "async"),
    ],
)
def test_same_weights_when_workers_are_killed(
    env: str, kind: str, mode: str, undisturbed: Any, tmp_path: Path
) -> None:
    def kill(pool: Any, count: int) -> None:
        if count in (0, 1):
            pool._workers[count % 2].process.kill()

    summary = run(tmp_path / "run", config_of(env, kind, mode), kill)
    assert summary["workers_restarted"] == 2
    assert same_weights(tmp_path / "run", undisturbed(env, kind))


@pytest.mark.parametrize(
    ("mode", "kind"), [("async", "episodes"), ("sync", "episodes"), ("async", "unrolls")]
)
def test_same_weights_when_a_worker_dies_in_the_middle_of_an_episode(
    mode: str, kind: str, undisturbed: Any, tmp_path: Path
) -> None:
    """Actions of several numbers are taken again, to where it was."""
    tickets = [tmp_path / "ticket"]

    def make_env() -> FaultyEnv:
        return FaultyEnv(PuzzleEnv, "killed", "step", 25, tickets)

    summary = run(tmp_path / "run", config_of("Puzzle", kind, mode, make_env=make_env))
    assert summary["workers_restarted"] == 1
    assert same_weights(tmp_path / "run", undisturbed("Puzzle", kind))


@pytest.mark.parametrize(
    ("env", "kind", "mode", "collection"),
    [
        ("CartPole", "episodes", "async", 0),
        ("Pendulum", "unrolls", "async", 2),
        ("Puzzle", "lagged", "async", 3),
        ("Pendulum", "lagged", "sync", 1),
        ("Pendulum", "lagged unrolls", "async", 3),
    ],
)
def test_a_stopped_run_goes_on_to_the_same_weights(
    env: str, kind: str, mode: str, collection: int, undisturbed: Any, tmp_path: Path
) -> None:
    config = config_of(env, kind, mode)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config, stop_at(collection))
    stopped = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert stopped.training.updates <= collection
    assert not is_finished(tmp_path / "run")
    run(tmp_path / "run", config)
    assert same_weights(tmp_path / "run", undisturbed(env, kind))
    whole, again = (
        [row["env_steps"] for row in read_metrics(path)]
        for path in (undisturbed(env, kind), tmp_path / "run")
    )
    assert again == whole


def test_what_a_stopped_run_had_begun_is_kept_with_it(tmp_path: Path) -> None:
    """How many episodes a batch has, and of which policy, follows from when it was begun."""
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config_of(kind="lagged"), stop_at(3))
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    updates, episode = checkpoint.training.updates, checkpoint.training.episodes
    assert checkpoint.begun
    for batch, version in zip(checkpoint.begun, itertools.count(updates - 1), strict=False):
        assert batch.policy.policy_version == version
        assert batch.policy.parameters.obs_mean is not None
        assert batch.policy.distribution.n_draws == 2
        assert batch.share is not None
        assert batch.share.first_episode == episode
        episode = batch.share.end
