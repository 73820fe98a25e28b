from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faulty_env import FaultyEnv
from tests.tiny_envs import CountingEnv
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.assignments import (
    EnvPosition,
    advance_positions,
    first_positions,
    skip,
)
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.player import play_episode, player_at
from workflow_rl.collection.rollout import in_order
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import EnvBatch, SerialEnvs
from workflow_rl.environments.episode import episode_spec


def copy_of(policy: NumpyPolicy, version: int = 4) -> NumpyPolicy:
    """The same weights, but nothing remembered of any episode: as a worker gets them."""
    return NumpyPolicy(policy.parameters, version)


def unrolls(
    envs: EnvBatch,
    policy: NumpyPolicy,
    n_steps: int,
    times: int,
    positions: list[EnvPosition] | None = None,
) -> list[list[Trajectory]]:
    """Each unroll with the weights of another version, all of the same values."""
    player = player_at(envs, positions or first_positions(3, RED_AGENTS, envs.n_envs))
    return [player.unroll(copy_of(policy, version), n_steps) for version in range(times)]


def actions_of(position: EnvPosition) -> list[int] | None:
    """Those taken so far, none being None."""
    return None if position.actions is None else position.actions.tolist()


@settings(max_examples=20)
@given(n_envs=st.integers(1, 6), n_steps=st.integers(1, 30), times=st.integers(1, 12))
def test_unrolls_are_the_episodes_cut_in_pieces(policy, n_envs, n_steps, times):
    by_episode: dict[int, list[Trajectory]] = {}
    for version, unroll in enumerate(
        unrolls(SerialEnvs(CountingEnv, n_envs), policy, n_steps, times)
    ):
        steps_of_env = [0] * n_envs
        for piece in unroll:
            assert piece.policy_version == version
            assert piece.length >= 1
            before = by_episode.setdefault(piece.episode, [])
            assert piece.steps_before == sum(earlier.length for earlier in before)
            assert piece.return_before == pytest.approx(sum(t.reward.sum() for t in before))
            assert not any(earlier.ended for earlier in before)
            before.append(piece)
            steps_of_env[piece.episode % n_envs] += piece.length
        assert steps_of_env == [n_steps] * n_envs
    alone = SerialEnvs(CountingEnv, 1)
    for episode, pieces in by_episode.items():
        expected = play_episode(alone, copy_of(policy, 0), episode_spec(3, episode, RED_AGENTS))
        names = ("obs", "action", "log_prob", "reward")
        arrays = {name: np.concatenate([getattr(one, name) for one in pieces]) for name in names}
        ends = {name: getattr(pieces[-1], name) for name in ("last_obs", "terminated", "truncated")}
        whole = pieces[0]._replace(**arrays, **ends, policy_version=0)
        if whole.ended:
            assert_same_trajectories([whole], [expected])
        else:
            for name in names:
                assert np.array_equal(arrays[name], getattr(expected, name)[: whole.length]), name
            assert np.array_equal(whole.last_obs, expected.obs[whole.length])
    for env in range(n_envs):
        # An env goes on with the next of its own episodes once one has ended, and not before.
        played = sorted(number for number in by_episode if number % n_envs == env)
        assert played == list(range(env, env + n_envs * len(played), n_envs))
        assert [by_episode[number][-1].ended for number in played[:-1]] == [True] * (
            len(played) - 1
        )


@settings(max_examples=30)
@given(
    n_envs=st.integers(1, 5),
    n_steps=st.integers(1, 9),
    before=st.integers(0, 6),
    first_episode=st.integers(0, 50),
)
def test_envs_brought_back_to_their_positions_go_on(policy, n_envs, n_steps, before, first_episode):
    positions = first_positions(3, RED_AGENTS, n_envs, first_episode)
    expected = unrolls(SerialEnvs(CountingEnv, n_envs), policy, n_steps, before + 3, positions)
    for unroll in expected[:before]:
        advance_positions(positions, unroll)
    restored = player_at(SerialEnvs(CountingEnv, n_envs), positions)
    for version in range(before, before + 3):
        unroll = restored.unroll(copy_of(policy, version), n_steps)
        assert_same_trajectories(unroll, expected[version])


def test_an_episode_that_ends_on_the_way_back_begins_again(policy):
    """An env whose episodes do not follow from their seeds is never stepped past an end."""
    positions = first_positions(3, RED_AGENTS, 2)
    long_envs = SerialEnvs(lambda: CountingEnv(10, 10), 2)
    advance_positions(positions, unrolls(long_envs, policy, 8, 1)[0])
    restored = player_at(SerialEnvs(lambda: CountingEnv(4, 4), 2), positions)
    for _ in range(3):
        pieces = restored.unroll(copy_of(policy), 3)
        advance_positions(positions, pieces)
        for piece in pieces:
            assert piece.steps_before + piece.length <= 4
    assert [position.episode for position in positions] == [4, 5]
    assert [len(position.actions) for position in positions if position.actions is not None] == [
        1,
        1,
    ]


def test_an_episode_is_left_out_by_the_env_whose_it_is():
    positions = first_positions(3, RED_AGENTS, 3, first_episode=10)
    skip(positions, 17)
    assert [(position.episode, position.skipped) for position in positions] == [
        *((10, ()), (11, (17,)), (12, ())),
    ]
    skip(positions, 11)  # The one that it is in.
    assert [position.episode for position in positions] == [10, 14, 12]
    assert [position.next.episode for position in positions] == [13, 20, 15]


@pytest.fixture(scope="module")
def expected(policy) -> list[list[Trajectory]]:
    """Unrolls of 5 envs, 6 steps each."""
    return [in_order(unroll) for unroll in unrolls(SerialEnvs(CountingEnv, 5), policy, 6, 5)]


def collector_of(mode: str, pool: LocalPool) -> SyncCollector | AsyncCollector:
    collector = SyncCollector(pool, 5) if mode == "sync" else AsyncCollector(pool, 3)
    collector.start_unrolls(first_positions(3, RED_AGENTS, 5), 6)
    return collector


@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_both_collectors_unroll_the_same_whatever_the_workers(mode, n_workers, policy, expected):
    with LocalPool(partial(SerialEnvs, CountingEnv), n_workers, -(-5 // n_workers)) as pool:
        collector = collector_of(mode, pool)
        positions = first_positions(3, RED_AGENTS, 5)
        for version, unroll in enumerate(expected):
            rollout = collector.unroll(copy_of(policy, version))
            assert_same_trajectories(rollout.trajectories, unroll)
            advance_positions(positions, unroll)
            for one, other in zip(rollout.positions, positions, strict=True):
                assert one._replace(actions=None) == other._replace(actions=None)
                assert actions_of(one) == actions_of(other)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_several_unrolls_at_a_time_are_as_many_one_after_another(mode, policy):
    envs = SerialEnvs(CountingEnv, 5)
    player = player_at(envs, first_positions(3, RED_AGENTS, 5))
    one_by_one = [t for _ in range(3) for t in player.unroll(copy_of(policy), 6)]
    with LocalPool(partial(SerialEnvs, CountingEnv), 2, 3) as pool:
        rollout = collector_of(mode, pool).unroll(copy_of(policy), times=3)
    assert_same_trajectories(rollout.trajectories, in_order(one_by_one))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_envs_that_played_something_else_go_on(mode, policy, specs, expected):
    with LocalPool(partial(SerialEnvs, CountingEnv), 2, 3) as pool:
        collector = collector_of(mode, pool)
        for version, unroll in enumerate(expected):
            rollout = collector.unroll(copy_of(policy, version))
            assert_same_trajectories(rollout.trajectories, unroll)
            collector.collect(copy_of(policy, 99), specs[: version + 1])
        assert pool.failures == 0, "envs that are somewhere else fail, and are then brought back"


@pytest.mark.parametrize("at", [1, 9, 22])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_unrolls_lose_nothing_with_a_worker(mode, at, policy, expected, tmp_path):
    # The step counter of one env in each worker; so both fail, each in another unroll.
    tickets = [tmp_path / "1", tmp_path / "2"]
    make_env = partial(FaultyEnv, CountingEnv, "killed", "step", at, tickets)
    with LocalPool(partial(SerialEnvs, make_env), 2, 3) as pool:
        collector = collector_of(mode, pool)
        for version, unroll in enumerate(expected):
            rollout = collector.unroll(copy_of(policy, version))
            assert_same_trajectories(rollout.trajectories, unroll)
        assert pool.failures == 2


@pytest.mark.parametrize("n_workers", [1, 2])
def test_idle_workers_that_are_gone_are_noticed_and_replaced(n_workers, policy, expected):
    with LocalPool(partial(SerialEnvs, CountingEnv), n_workers, -(-5 // n_workers)) as pool:
        collector = collector_of("async", pool)
        for version, unroll in enumerate(expected[:3]):
            rollout = collector.unroll(copy_of(policy, version))
            assert_same_trajectories(rollout.trajectories, unroll)
            assert rollout.workers_restarted == (n_workers if version else 0)
            for worker in pool._workers:
                worker.process.kill()
                worker.process.join()
