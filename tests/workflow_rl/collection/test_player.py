from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.playing import episodes_of
from tests.tiny_envs import CountingEnv
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.player import play_episode, play_episodes
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import EpisodeSpec, episode_spec


def specs_of(n_episodes: int) -> list[EpisodeSpec]:
    return [episode_spec(3, number, RED_AGENTS) for number in range(n_episodes)]


def test_a_trajectory_holds_what_plain_stepping_shows(policy):
    spec = episode_spec(3, 5, RED_AGENTS)
    trajectory = play_episode(SerialEnvs(CountingEnv, 1), policy, spec)
    env, randoms = CountingEnv(), np.random.default_rng(spec.action_seed)
    obs, _ = env.reset(seed=spec.env_seed, options={"variant": spec.variant})
    for t in range(trajectory.length):
        assert np.array_equal(trajectory.obs[t], obs)
        actions, log_probs = policy.act_batch(obs[None], [randoms])
        assert (trajectory.action[t], trajectory.log_prob[t]) == (actions[0], log_probs[0])
        obs, reward, terminated, truncated, _ = env.step(int(actions[0]))
        assert trajectory.reward[t] == reward
    assert (trajectory.terminated, trajectory.truncated) == (terminated, truncated)
    assert terminated != truncated
    assert np.array_equal(trajectory.last_obs, obs)
    assert (trajectory.episode, trajectory.variant) == (5, spec.variant)
    assert trajectory.policy_version == policy.policy_version
    dtypes = [getattr(trajectory, name).dtype for name in ("obs", "action", "log_prob", "reward")]
    assert dtypes == [np.uint8, np.int64, np.float32, np.float64]


@settings(max_examples=25, deadline=None)
@given(n_envs=st.integers(1, 9), n_episodes=st.integers(0, 25))
def test_how_many_play_at_once_makes_no_difference(policy, n_envs, n_episodes):
    specs = specs_of(n_episodes)
    together = episodes_of(SerialEnvs(CountingEnv, n_envs), policy, specs)
    one_env = SerialEnvs(CountingEnv, 1)
    assert_same_trajectories(together, [play_episode(one_env, policy, spec) for spec in specs])


def test_an_episode_longer_than_many_others_is_kept_whole(policy):
    # One env plays 255 steps while another plays some 80 episodes of 3 beside it.
    lengths = iter([255, 3])
    envs = SerialEnvs(lambda: CountingEnv(*([next(lengths)] * 2)), 2)
    specs = specs_of(81)
    trajectories = episodes_of(envs, policy, specs)
    (longest,) = [t for t in trajectories if t.length == 255]
    alone = play_episode(SerialEnvs(lambda: CountingEnv(255, 255), 1), policy, specs[0])
    assert_same_trajectories([longest], [alone])
    short = play_episode(SerialEnvs(lambda: CountingEnv(3, 3), 1), policy, specs[-1])
    assert_same_trajectories([t for t in trajectories if t.episode == 80], [short])


def test_trajectories_are_not_changed_by_what_is_played_later(policy):
    playing = play_episodes(SerialEnvs(CountingEnv, 2), policy, specs_of(20))
    first = next(playing)
    copies = [trajectory.obs.copy() for trajectory in first]
    list(playing)
    assert all(np.array_equal(t.obs, copy) for t, copy in zip(first, copies, strict=True))


def test_compiled_envs_that_are_not_named_rest():
    specs = specs_of(3)
    envs, others = (CompiledEnvs(BatchedSimulator(3, 30), 30) for _ in range(2))
    envs.reset([0, 1, 2], specs)
    others.reset([1], [specs[1]])
    for _ in range(20):
        envs.step([2, 0], np.array([0, 0]))
    for _ in range(30):
        ours, theirs = envs.step([1], np.array([0])), others.step([1], np.array([0]))
        for column, other in zip(ours, theirs, strict=True):
            assert np.array_equal(column, other)
    assert ours.truncated.tolist() == [True]
    assert not ours.terminated.any()
    assert envs.step([2, 0], np.array([0, 0])).truncated.tolist() == [False, False]


def test_envs_get_plain_numbers_where_actions_are_single_ones_and_arrays_else():
    given: list[Any] = []

    class Recording(CountingEnv):
        def step(self, action: Any) -> Any:
            given.append(action)
            return super().step(0)

    envs = SerialEnvs(Recording, 1)
    envs.reset([0], specs_of(1))
    envs.step([0], np.array([4]))
    envs.step([0], np.array([[0.5, 1.5]], np.float32))
    assert [type(action) for action in given] == [int, np.ndarray]
    assert [given[0], given[1].tolist()] == [4, [0.5, 1.5]]
