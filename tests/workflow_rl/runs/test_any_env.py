"""Whole small runs on Gymnasium environments: the same weights whatever happens on the way."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.ppo.config import PPOConfig
from tests import any_envs
from tests.any_envs import PuzzleEnv, TargetEnv
from tests.faulty_env import FaultyEnv
from tests.tiny_runs import same_weights
from workflow_rl import api as interface
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.environments.episode import episode_spec
from workflow_rl.runs import learner, loop
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.folder import is_finished, read_config, read_metrics
from workflow_rl.runs.trust import trusted_config

PPO = PPOConfig(
    hidden_sizes=(8,),
    minibatch_size=50,
    epochs=1,
    reward_scale=1.0,
    normalise_obs=True,
    normalise_returns=True,
)
ENVS: dict[str, dict[str, Any]] = {
    "CartPole": {"env": "CartPole-v1"},
    "Pendulum": {"env": "Pendulum-v1", "env_args": {"max_episode_steps": 25}},
    "Puzzle": {"env": "tests.any_envs:PuzzleEnv"},
}
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {"steps_per_update": 60},
    "unrolls": {"num_steps_per_env": 6, "steps_per_update": 60},
    "lagged": {"steps_per_update": 60, "async_rl": True},
    "lagged unrolls": {"num_steps_per_env": 6, "steps_per_update": 60, "async_rl": True},
}


def config_of(
    env: str = "Puzzle", kind: str = "episodes", mode: str = "async", **changes: Any
) -> TrainConfig:
    """A run of 5 envs and some 5 updates."""
    settings: dict[str, Any] = {"n_envs": 5, "n_workers": 2, "total_steps": 300, "seed": 3}
    settings |= {
        **ENVS.get(env, {"env": env}),
        **KINDS[kind],
        "ppo": PPO,
        "device": "cpu",
        **changes,
    }
    return TrainConfig(mode=mode, **settings)  # type: ignore[arg-type]


Before = Callable[[Any, int], None]
"""Is called with the pool and how many collections were before this one."""


def run(path: Path, config: TrainConfig, before: Before | None = None) -> dict[str, Any]:
    """Start the run in `path`, or go on with it."""

    def collector_of(pool: Any, config: TrainConfig) -> Any:
        collector: Any = loop.make_collector(pool, config)
        if before is not None:
            count = itertools.count()
            for name in ("collect", "unroll"):
                setattr(collector, name, interfered(pool, getattr(collector, name), count))
        return collector

    def interfered(pool: Any, play: Callable[..., Any], count: Iterator[int]) -> Any:
        def with_interference(*arguments: Any) -> Any:
            assert before is not None
            before(pool, next(count))
            return play(*arguments)

        return with_interference

    checkpoint = path / "checkpoint.pt"
    resumed = load_checkpoint(checkpoint) if checkpoint.exists() else None
    return loop.train(config, path, resumed, quiet=True, collector_of=collector_of)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """An undisturbed run of an env and a kind."""

    @functools.cache
    def path_of(env: str, kind: str) -> Path:
        path = tmp_path_factory.mktemp("runs") / "reference"
        run(path, config_of(env, kind))
        return path

    return path_of


def stop_at(collection: int) -> Before:
    """Has the run stop at its collection of this number."""

    def before(pool: Any, count: int) -> None:
        if count == collection:
            pool.stop_signal = signal.SIGINT

    return before


def critic_at(path: Path, obs: list[float]) -> float:
    agent = learner.make_agent(trusted_config(read_config(path)))
    agent.load_state_dict(load_checkpoint(path / "checkpoint.pt").agent)
    with torch.no_grad():
        return float(agent.network.critic(torch.tensor([obs])))


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
    env: str, mode: str, n_workers: int, reference: Any, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of(env, "episodes", mode, n_workers=n_workers))
    assert same_weights(tmp_path / "run", reference(env, "episodes"))


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
    env: str, kind: str, mode: str, n_workers: int, reference: Any, tmp_path: Path
) -> None:
    run(tmp_path / "run", config_of(env, kind, mode, n_workers=n_workers))
    assert same_weights(tmp_path / "run", reference(env, kind))


@pytest.mark.parametrize("env", ENVS)
def test_every_setting_that_is_to_change_the_weights_does(env: str, reference: Any) -> None:
    before = learner.make_agent(config_of(env)).network.state_dict()
    after = load_checkpoint(reference(env, "episodes") / "checkpoint.pt").agent["network"]
    assert not any(torch.equal(before[name], after[name]) for name in after)
    assert not same_weights(reference(env, "episodes"), reference(env, "lagged"))


def test_another_seed_gives_other_weights(reference: Any, tmp_path: Path) -> None:
    run(tmp_path / "run", config_of(seed=4))
    assert not same_weights(tmp_path / "run", reference("Puzzle", "episodes"))


@pytest.mark.parametrize(
    ("env", "kind", "mode"),
    [
        ("CartPole", "episodes", "async"),
        ("Puzzle", "lagged", "sync"),
        ("Pendulum", "lagged unrolls", "async"),
    ],
)
def test_same_weights_when_workers_are_killed(
    env: str, kind: str, mode: str, reference: Any, tmp_path: Path
) -> None:
    def kill(pool: Any, count: int) -> None:
        if count in (0, 1):
            pool._workers[count % 2].process.kill()

    summary = run(tmp_path / "run", config_of(env, kind, mode), kill)
    assert summary["workers_restarted"] == 2
    assert same_weights(tmp_path / "run", reference(env, kind))


@pytest.mark.parametrize(
    ("mode", "kind"), [("async", "episodes"), ("sync", "episodes"), ("async", "unrolls")]
)
def test_same_weights_when_a_worker_dies_in_the_middle_of_an_episode(
    mode: str, kind: str, reference: Any, tmp_path: Path
) -> None:
    """Actions of several numbers are taken again, to where it was."""
    tickets = [tmp_path / "ticket"]

    def make_env() -> FaultyEnv:
        return FaultyEnv(PuzzleEnv, "killed", "step", 25, tickets)

    summary = run(tmp_path / "run", config_of("Puzzle", kind, mode, make_env=make_env))
    assert summary["workers_restarted"] == 1
    assert same_weights(tmp_path / "run", reference("Puzzle", kind))


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
    env: str, kind: str, mode: str, collection: int, reference: Any, tmp_path: Path
) -> None:
    config = config_of(env, kind, mode)
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config, stop_at(collection))
    stopped = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert stopped.training.updates <= collection
    assert not is_finished(tmp_path / "run")
    run(tmp_path / "run", config)
    assert same_weights(tmp_path / "run", reference(env, kind))
    whole, again = (
        [row["env_steps"] for row in read_metrics(path)]
        for path in (reference(env, kind), tmp_path / "run")
    )
    assert again == whole


def test_what_a_stopped_run_had_begun_is_kept_with_it(tmp_path: Path) -> None:
    """How many episodes a batch has, and of which policy, follows from when it was begun."""
    with pytest.raises(StopRequested):
        run(tmp_path / "run", config_of(kind="lagged"), stop_at(3))
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    updates, episode = checkpoint.training.updates, checkpoint.training.episodes
    assert checkpoint.begun
    for batch, version in zip(checkpoint.begun, itertools.count(updates - 1), strict=False):
        assert batch.policy.policy_version == version
        assert batch.policy.parameters.obs_mean is not None
        assert batch.policy.distribution.n_draws == 2
        assert batch.share is not None
        assert batch.share.first_episode == episode
        episode = batch.share.end


def test_rollouts_given_in_steps_have_about_so_many_from_the_second_on(tmp_path: Path) -> None:
    config = config_of(steps_per_update=200, total_steps=1200)
    summary = run(tmp_path / "run", config)
    rows = read_metrics(tmp_path / "run")
    steps = np.diff([0, *(row["env_steps"] for row in rows)])
    episodes = np.diff([0, *(row["episodes"] for row in rows)])
    assert episodes[0] == 8, "nobody knows yet how long they are"
    assert len(set(episodes[1:])) > 1, "or else their lengths would have made no difference"
    assert np.abs(steps[1:] / 200 - 1).max() < 0.5
    assert abs(steps[1:].mean() / 200 - 1) < 0.2
    assert 1200 <= summary["env_steps"] < 1200 + 300
    assert rows[-2]["env_steps"] < 1200


def test_the_end_of_a_run_in_steps_is_that_of_its_learning_rate(reference: Any) -> None:
    rows = read_metrics(reference("Puzzle", "episodes"))
    before = [0, *(row["env_steps"] for row in rows[:-1])]
    expected = [PPO.learning_rate * (1 - steps / 300) for steps in before]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected)


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
        "tests.any_envs:EndingEnv", kind, env_args=args, ppo=ppo, total_steps=720, n_workers=1
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
    config = config_of("tests.any_envs:SpoiltEnv", kind, mode, env_args=args)
    run(tmp_path / "good", config)
    switch.touch()
    with pytest.raises(loop.NotFiniteError) as error:
        run(tmp_path / "bad", config)
    assert f"{what} is not finite at step {step} of episode 37:" in str(error.value)
    with np.load(tmp_path / "bad" / "diverged.npz") as batch:
        names = ("obs", "last_obs") if what == "observation" else ("reward",)
        assert not all(np.isfinite(batch[name]).all() for name in names)
    saved = load_checkpoint(tmp_path / "bad" / "checkpoint.pt")
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
    config = config_of("tests.any_envs:MisshapenEnv", kind, mode, env_args=args)
    with pytest.raises(TooManyFailuresError) as error:
        run(tmp_path / "run", config)
    where = "in episode 37 the environment's observation of step 3"
    assert str(error.value).startswith(f"{where} {how}")
    assert str(error.value).endswith("; its space is Box(-inf, inf, (2,), float32)")
    assert "\n" not in str(error.value)
    assert not [one for one in caplog.records if "replaced" in one.getMessage()]
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert 1 <= saved.training.updates < 5


def test_a_run_begins_with_the_agent_of_another(reference: Any, tmp_path: Path) -> None:
    other = load_checkpoint(reference("Puzzle", "episodes") / "checkpoint.pt")
    config = config_of(kind="unrolls", seed=8, total_steps=60)
    before = learner.make_agent(config)
    before.load_policy(other.agent)
    loop.train(config, tmp_path / "run", init_from=other, quiet=True)
    after = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert after.agent["policy_version"] == after.training.updates == 1
    # One small step from where the other ended: Adam's first is the learning rate, at most, each.
    for name, tensor in before.network.state_dict().items():
        moved = (after.agent["network"][name] - tensor).abs().max()
        assert 0 < moved < 3 * PPO.learning_rate
    assert after.agent["obs_moments"]["count"] == other.agent["obs_moments"]["count"] + 60
    with pytest.raises(CheckpointError, match="does not fit"):
        loop.train(config_of("Pendulum"), tmp_path / "other", init_from=other, quiet=True)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("episodes", "total_steps"),
        ("unrolls", "total_steps"),
        ("lagged", "total_steps"),
        ("lagged", "total_episodes"),
    ],
)
def test_a_finished_run_goes_on_past_its_end(kind: str, unit: str, tmp_path: Path) -> None:
    ends = {"total_steps": None, "total_episodes": None}
    first, second = (60, 90) if unit == "total_episodes" else (200, 400)
    run(tmp_path / "run", config_of(kind=kind, **{**ends, unit: first}))
    before = (tmp_path / "run" / "metrics.csv").read_text()
    summary = run(tmp_path / "run", config_of(kind=kind, **{**ends, unit: second}))
    after = (tmp_path / "run" / "metrics.csv").read_text()
    assert after.startswith(before)
    assert after != before
    rows = read_metrics(tmp_path / "run")
    done = "env_steps" if unit == "total_steps" else "episodes"
    assert summary[done] == rows[-1][done] >= second
    assert math.isfinite(rows[-1]["policy_loss"])


def test_a_config_of_before_there_were_other_environments_is_still_read() -> None:
    config = TrainConfig("async", env_args={"red_agent": "mixed", "max_steps": 30})
    old = config.to_dict()
    assert old["red_agent"] == "mixed"
    for name in ("env", "total_steps"):
        del old[name]
    for name in ("network", "log_std_init", "clip_range_final", "normalise_obs"):
        del old["settings"][name]
    del old["settings"]["normalise_returns"]
    again = TrainConfig.from_dict(json.loads(json.dumps(old)))
    assert again == config
    assert again.environment.args["red_agent"] == "mixed"


@pytest.mark.parametrize("env", ENVS)
def test_a_config_is_the_same_from_its_plain_values(env: str) -> None:
    config = config_of(env)
    plain = config.to_dict()
    assert TrainConfig.from_dict(json.loads(json.dumps(plain))) == config
    assert plain["env_args"] == ENVS[env].get("env_args", {})


def test_defaults_are_those_of_an_environment_of_which_nothing_is_known() -> None:
    config = TrainConfig("async", env="CartPole-v1")
    assert (config.total_episodes, config.total_steps) == (None, 100_000)
    assert (config.episodes_per_update, config.steps_per_update) == (None, 2048)
    assert (config.settings.normalise_obs, config.settings.normalise_returns) == (True, True)
    with_function = TrainConfig("async", env="mine", make_env=PuzzleEnv)
    for name in ("total_episodes", "total_steps", "episodes_per_update", "steps_per_update"):
        assert getattr(with_function, name) == getattr(config, name)
    assert with_function.settings == config.settings
    given = TrainConfig("async", total_steps=77, ppo=PPO).changed(env="mine", make_env=PuzzleEnv)
    assert (given.total_episodes, given.total_steps, given.settings) == (None, 77, PPO)
    unrolls = TrainConfig("async", n_envs=10, num_steps_per_env=100, env="CartPole-v1")
    assert unrolls.steps_per_update == 3000


def test_a_run_has_one_end() -> None:
    with pytest.raises(ConfigError, match="does not go with total_episodes") as error:
        TrainConfig("async", env="CartPole-v1", total_steps=5, total_episodes=5)
    assert error.value.field_name == "total_steps"


# The Python interface.


def local_env() -> Callable[..., TargetEnv]:
    """A function that no worker could import."""

    class LocalEnv(TargetEnv):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = super().step(action)
            return obs, reward + 1, *rest

    return lambda length: LocalEnv(length)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By interface.train, from a thread, on environments of a local function."""
    path = tmp_path_factory.mktemp("interface") / "run"
    config = TrainConfig(
        *("async", 4),
        env="mine",
        env_args={"length": 6},
        total_steps=150,
        steps_per_update=60,
        ppo=PPO,
        device="cpu",
    )
    returned: list[Path] = []
    thread = threading.Thread(
        target=lambda: returned.append(interface.train(config, path, env=local_env()))
    )
    thread.start()
    thread.join(60)
    assert returned == [path]
    return path


def test_training_from_a_thread_on_a_local_function(trained: Path) -> None:
    assert (trained / "learning_curve.png").exists()
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["env"] == "mine"
    assert summary["env_steps"] >= 150
    assert read_config(trained).env_args == {"length": 6}
    lengths = {row["episode_length_mean"] for row in read_metrics(trained)}
    assert lengths == {6}


def test_a_loaded_agent_acts(trained: Path) -> None:
    env = local_env()(6)
    agent = interface.load_agent(trained, env=local_env())
    obs, _ = env.reset(seed=0)
    action = agent.act(obs)
    assert env.action_space.contains(action)
    np.testing.assert_array_equal(agent.act(obs), action)
    sampling = interface.load_agent(trained / "checkpoint.pt", greedy=False, env=local_env())

    def sampled(seed: int) -> list[list[float]]:
        sampling.reset(seed)
        return [sampling.act(obs).tolist() for _ in range(3)]

    assert sampled(1) == sampled(1) != sampled(2)
    first = sampled(1)
    assert first[0] != first[1]


@pytest.mark.parametrize("env", ENVS)
def test_a_loaded_agent_acts_in_every_kind_of_space(env: str, reference: Any) -> None:
    path = reference(env, "episodes")
    agent = interface.load_agent(path, greedy=False)
    made: Any = trusted_config(read_config(path)).environment.make_env()  # type: ignore[attr-defined]
    obs, _ = made.reset(seed=0)
    for _ in range(2):
        action = agent.act(obs)
        assert made.action_space.contains(action)
        obs, *_ = made.step(action)


@pytest.mark.parametrize("greedy", [True, False])
def test_an_evaluation_is_the_same_with_any_number_of_workers(trained: Path, greedy: bool) -> None:
    one, three = (
        interface.evaluate(
            trained, episodes=7, env=local_env(), seed=2, greedy=greedy, n_workers=n_workers
        )
        for n_workers in (1, 3)
    )
    assert one.returns == three.returns
    assert len(set(one.returns)) == 7
    assert one.lengths == [6] * 7
    assert one.mean == pytest.approx(sum(one.returns) / 7)
    other_seed = interface.evaluate(trained, 7, env=local_env(), seed=3, n_workers=1)
    assert other_seed.returns != one.returns


def test_an_evaluations_numbers_by_hand() -> None:
    evaluation = interface.Evaluation("env", 0, [1.0, 2.0, 6.0], [3, 4, 5], 1.0)
    assert evaluation.mean == 3
    assert evaluation.std == pytest.approx(math.sqrt(7))
    assert evaluation.interval_95 == pytest.approx(1.96 * math.sqrt(7 / 3))
    assert math.isnan(interface.Evaluation("env", 0, [1.0], [3], 1.0).std)


def test_the_interface_resumes_and_begins_with_another_agent(trained: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"env_args": {"length": 6}, "steps_per_update": 60, "ppo": PPO}
    config = functools.partial(TrainConfig, "async", 4, env="mine", device="cpu", **settings)
    path = interface.train(
        config(total_steps=60), tmp_path / "run", env=local_env(), init_from=trained
    )
    interface.train(config(total_steps=150), path, env=local_env(), resume=True)
    assert read_metrics(path)[-1]["env_steps"] >= 150
    assert not same_weights(path, trained)


def test_a_resumed_run_begins_with_no_other_agent(trained: Path, tmp_path: Path) -> None:
    config = TrainConfig("async", env="CartPole-v1", total_steps=200)
    with pytest.raises(ConfigError, match=r"init_from: .*does not go with resume.*own agent"):
        interface.train(config, tmp_path / "run", resume=True, init_from=trained)


def test_a_function_that_goes_wrong_in_every_worker(tmp_path: Path) -> None:
    """The run ends, and says why."""
    here = os.getpid()

    def make_env() -> TargetEnv:
        if os.getpid() != here:
            raise OSError("no more licences")
        return TargetEnv()

    config = TrainConfig("async", 2, total_steps=60, max_worker_failures=1, ppo=PPO, device="cpu")
    with pytest.raises(TooManyFailuresError) as error:
        interface.train(config, tmp_path / "run", env=make_env)
    assert "no more licences" in str(error.value) + str(error.value.__cause__)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.pt").training.updates == 0


def test_the_registered_ids_of_these_tests_are_found_by_workers(tmp_path: Path) -> None:
    assert "tests/Target-v0" in any_envs.gymnasium.registry
    config = config_of("tests.any_envs:tests/Target-v0", env_args={"length": 4})
    summary = run(tmp_path / "run", config)
    assert summary["env_steps"] == 4 * summary["episodes"] >= 300


def test_an_extended_run_that_was_stopped_goes_on(tmp_path):
    """Its summary is of the shorter run; nothing may take it for finished."""
    config = TrainConfig("async", env="CartPole-v1", total_steps=300, steps_per_update=100)
    path = interface.train(config, tmp_path / "run")
    longer = config.changed(total_steps=3000)
    assert (path / "summary.json").exists()

    class Stopping:
        def __init__(self, collector):
            self.collector, self.start_unrolls = collector, collector.start_unrolls

        def collect(self, *arguments):
            raise StopRequested(2)

    with pytest.raises(StopRequested):
        loop.train(
            longer,
            path,
            load_checkpoint(path / "checkpoint.pt"),
            collector_of=lambda pool, config: Stopping(loop.make_collector(pool, config)),
        )
    assert not is_finished(path)
    interface.train(longer, path, resume=True)
    assert load_checkpoint(path / "checkpoint.pt").training.env_steps >= 3000


@pytest.mark.parametrize("change", [{"seed": 9}, {"env_args": {"length": 3}}])
def test_another_run_is_not_resumed(change, tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_steps=200, steps_per_update=100)
    path = interface.train(config, tmp_path / "run")
    before = (path / "config.json").read_text()
    with pytest.raises(ConfigError, match="but the run to resume has"):
        interface.train(config.changed(**change), path, resume=True)
    assert (path / "config.json").read_text() == before


def test_some_fields_of_ppo_leave_the_others_to_the_environment():
    config = TrainConfig("async", env="CartPole-v1", ppo={"discount": 0.9})  # type: ignore[arg-type]
    assert config.settings.discount == 0.9
    assert config.settings.normalise_obs


def test_a_normalised_agent_does_not_begin_a_run_that_does_not_normalise(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_steps=200)
    path = interface.train(config, tmp_path / "run")
    plain = TrainConfig("async", env="CartPole-v1", total_steps=200, ppo={"normalise_obs": False})  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="obs_moments"):
        interface.train(plain, tmp_path / "other", init_from=path)
    assert not (tmp_path / "other").exists()
