from __future__ import annotations

import time
from typing import Any

import pytest
from gymnasium import spaces

from tests.any_envs import TargetEnv
from workflow_rl.runs import preflight
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.preflight import hints, updates_of, warn_if_results_vary

SHORT = {"env_args": {"max_steps": 10}, "episodes_per_update": None}


class Waiting(TargetEnv):
    """Each fourth step takes long, on no core."""

    def step(self, action: Any) -> Any:
        time.sleep(0.02 * (self._steps % 4 == 0))
        return super().step(action)


def config_of(**settings: Any) -> TrainConfig:
    return TrainConfig("async", **settings)


@pytest.mark.parametrize(
    ("settings", "n_updates"),
    [
        ({"total_episodes": 49, "episodes_per_update": 24}, 3),
        # 10 steps an episode. The first rollout has 8 of them, and the others 12.
        ({**SHORT, "total_steps": 81, "steps_per_update": 120}, 2),
        ({**SHORT, "total_steps": 200, "steps_per_update": 120}, 2),
        ({**SHORT, "total_steps": 201, "steps_per_update": 120}, 3),
        ({**SHORT, "total_episodes": 8, "steps_per_update": 120}, 1),
        ({**SHORT, "total_steps": 61, "episodes_per_update": 3}, 3),
        ({"env": "CartPole-v1", "total_steps": 4096, "n_envs": 8, "num_steps_per_env": 256}, 2),
        # How long the episodes are is not known, or not known in time.
        ({"env": "CartPole-v1", "total_steps": 4096}, None),
        ({**SHORT, "total_steps": 200, "steps_per_update": 120, "async_rl": True}, None),
        ({"env": "CartPole-v1", "total_episodes": 50}, None),
    ],
)
def test_how_often_it_learns(settings: dict[str, Any], n_updates: int | None) -> None:
    assert updates_of(config_of(**settings)) == n_updates


def test_a_run_that_learns_once_or_twice_is_told_so() -> None:
    (once,) = hints(config_of(total_episodes=24, episodes_per_update=24))
    assert "learns once, from 24 episodes: a larger" in once
    assert "--total-episodes" in once
    assert "--episodes-per-update" in once
    unrolls = {"n_envs": 8, "num_steps_per_env": 256, "steps_per_update": 2048}
    (twice,) = hints(config_of(env="CartPole-v1", total_steps=4096, **unrolls))
    assert "learns twice, from 2,048 steps each time" in twice
    (few,) = hints(config_of(env="CartPole-v1", total_steps=4096))
    assert "from its first 8 episodes and then from about 2,048 steps" in few
    assert not hints(config_of(env="CartPole-v1", total_steps=4097))
    assert not hints(config_of(total_episodes=72, episodes_per_update=24))


def test_what_an_update_of_so_many_steps_has_is_told() -> None:
    asked = {"env": "Pendulum-v1", "steps_per_update": 400}
    (hint,) = hints(config_of(**asked))
    assert "the first update has 8 complete episodes" in hint
    assert "at least 2, or at least 8 if 8 have no more than 800 steps (twice" in hint
    assert not hints(config_of(env="Pendulum-v1"))
    assert not hints(config_of(**asked, num_steps_per_env=50))
    assert not hints(config_of(**asked, min_episodes_per_update=8))  # No default.


def test_a_long_run_on_cyborg_is_told_of_what_is_faster() -> None:
    cyborg = {"simulator": "cyborg"}
    (hint,) = hints(config_of(env_args=cyborg, total_episodes=2000))
    assert "--simulator compiled plays the same episodes" in hint
    for args, episodes in (({}, 2000), ({**cyborg, "max_steps": 30}, 2000), (cyborg, 1999)):
        assert not hints(config_of(env_args=args, total_episodes=episodes))


def test_envs_that_an_update_leaves_idle_are_told_of() -> None:
    for mode in ("sync", "async"):
        config = TrainConfig(mode, n_envs=100, env_args={"simulator": "compiled"})
        (hint,) = hints(config)
        assert "24 of the 100 envs play" in hint
        assert "--episodes-per-update 100" in hint
        assert not hints(config.changed(episodes_per_update=100))
        assert not hints(config.changed(num_steps_per_env=24))


def test_a_run_that_ends_before_it_is_warm_is_told_so() -> None:
    few = {"env_args": {"max_steps": 10}, "total_steps": 600, "steps_per_update": 600}
    of_sac = config_of(algorithm="sac", sac={"warm_up_steps": 600}, **few)
    assert any("learns nothing" in hint for hint in hints(of_sac))
    assert not any("nothing" in hint for hint in hints(config_of(**few)))
    of_sac = config_of(algorithm="sac", sac={"warm_up_steps": 599}, **few)
    assert not any("nothing" in hint for hint in hints(of_sac))


def test_the_observation_that_an_algorithm_gets_is_told_unless_it_was_chosen() -> None:
    (hint,) = hints(config_of(algorithm="sac", total_episodes=400))
    assert hint.startswith("--algorithm sac plays with --observation belief --actions by-host")
    (hint,) = hints(config_of(algorithm="mbpo", env_args={"actions": "all"}, total_episodes=400))
    assert "--observation belief unless" in hint
    chosen = {"observation": "table", "actions": "all"}
    assert not hints(config_of(algorithm="sac", env_args=chosen, total_episodes=400))
    assert not hints(config_of(total_episodes=400))


def test_frequent_evaluations_are_told_of() -> None:
    run = {"env": "Pendulum-v1", "preset": "sac-control", "total_steps": 10_000}
    (hint,) = hints(config_of(**run, eval_every=10, eval_episodes=3))
    assert "--eval-every 10 evaluates after every 500 env steps, and plays 3 episodes" in hint
    assert not hints(config_of(**run, eval_every=100))
    assert not hints(config_of(**run))


class Large(TargetEnv):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1, 1, (100_000,))


def test_an_environment_that_waits_and_one_that_shows_very_much_are_told_of() -> None:
    config = config_of(env="waits", make_env=Waiting, total_steps=9000)
    assert not hints(config)
    warn_if_results_vary(config)
    (hint,) = hints(config)
    assert "of the time a worker waits for the environment: --n-workers 8 collects faster" in hint
    assert not hints(config.changed(n_workers=8))
    (hint,) = hints(config_of(env="large", make_env=Large, total_steps=9000))
    assert hint.startswith("mlp sees 100,000 numbers in a row")


def test_what_masks_are_read_from_is_told() -> None:
    (hint,) = hints(config_of(env="tests.any_envs:NamedPuzzleEnv"))
    assert hint.startswith("its method get_action_mask rules actions out; --no-action-mask")
    assert not hints(config_of(env="tests.any_envs:NamedPuzzleEnv", action_mask=False))


def test_many_processes_at_a_barrier_are_told_of_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "usable_cores", lambda: 2)

    def told(mode: str, **fields: Any) -> str:
        config = TrainConfig(mode, env="CartPole-v1", total_steps=100_000, n_envs=100, **fields)
        return " ".join(hints(config))

    assert "100 worker processes" in told("sync")
    assert "--n-workers 2 gives the same weights" in told("sync")
    assert "worker processes" not in told("sync", n_workers=8) + told("async")


def test_an_option_that_does_nothing_is_named() -> None:
    counted = {"total_episodes": 24, "episodes_per_update": 2, "n_envs": 2}
    told = hints(config_of(eval_every=13, **counted))
    assert any("--eval-every 13 never evaluates, as the run has 12 updates" in t for t in told)
    assert not any("never evaluates" in t for t in hints(config_of(eval_every=12, **counted)))
    told = hints(config_of(env="CartPole-v1", total_steps=9, ignore_unknown=True))
    assert any("--ignore-unknown leaves nothing out" in hint for hint in told)


class Crowded(TargetEnv):
    """Has 200,000 actions."""

    def __init__(self, n_actions: int = 200_000) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(n_actions)


def test_very_many_actions_are_told_with_what_an_update_takes() -> None:
    crowded = "tests.workflow_rl.runs.test_hints:Crowded"
    few = {"env": crowded, "total_steps": 90_000, "steps_per_update": 3_000}
    # 3,000 steps in 10 epochs, 200,000 outputs each, 20 million a second: 300 s.
    told = hints(config_of(settings={"epochs": 10}, **few))
    (hint,) = (one for one in told if one.startswith("there are 200,000 actions, "))
    assert "an update of 3,000 steps takes about 5 minutes of a core" in hint
    told = hints(config_of(env_args={"n_actions": 9_999}, **few))
    assert not any("actions, and the policy" in one for one in told)
