import copy
import itertools
import pickle
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflow_rl.agents.policies import numpy_policy
from workflow_rl.agents.policies.network import ACTIVATIONS
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters

OBS_DIM, N_ACTIONS, HIDDEN_SIZES = 52, 145, (64, 64)


def random_policy(
    sizes: Sequence[int] = (OBS_DIM, *HIDDEN_SIZES, N_ACTIONS),
    activation: str = "tanh",
    greedy: bool = False,
) -> NumpyPolicy:
    """A policy with random weights: logits of order 1, far from uniform."""
    random = np.random.default_rng(0)
    shapes = list(itertools.pairwise(sizes))
    weights = tuple(
        random.normal(0, n_in**-0.5, (n_in, n_out)).astype(np.float32) for n_in, n_out in shapes
    )
    biases = tuple(random.normal(0, 1, n_out).astype(np.float32) for _, n_out in shapes)
    return NumpyPolicy(PolicyParameters(weights, biases, activation), greedy=greedy)


def random_obs(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, OBS_DIM), np.uint8)


def streams(n: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(n)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=40)
@given(
    split=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    obs_seed=st.integers(0, 2**32 - 1),
    greedy=st.booleans(),
)
def test_every_split_of_a_batch_gives_the_same_bits(activation, split, obs_seed, greedy):
    policy = random_policy(activation=activation, greedy=greedy)
    size = sum(split)
    obs = random_obs(size, obs_seed)
    logits = policy.outputs(obs)
    action, log_prob = policy.act_batch(obs, streams(size))
    for sizes in (split, [1] * size):
        ends = np.cumsum(sizes)
        parts = [slice(end - n, end) for end, n in zip(ends, sizes, strict=True)]
        of_parts = np.concatenate([policy.outputs(obs[part]) for part in parts])
        assert of_parts.tobytes() == logits.tobytes()
        acted = [policy.act_batch(obs[part], streams(size)[part]) for part in parts]
        assert np.concatenate([a for a, _ in acted]).tobytes() == action.tobytes()
        assert np.concatenate([p for _, p in acted]).tobytes() == log_prob.tobytes()


@pytest.mark.parametrize("sizes", [(OBS_DIM, *HIDDEN_SIZES, N_ACTIONS), (7, 300, 5), (3, 4)])
def test_the_layout_of_the_observations_in_memory_makes_no_difference(sizes):
    policy = random_policy(sizes)
    obs = np.random.default_rng(0).integers(0, 2, (33, sizes[0]), np.uint8)
    expected = policy.outputs(obs).tobytes()
    every_other = np.repeat(obs, 2, axis=1)[:, ::2]
    for same in (
        np.asfortranarray(obs),
        every_other,
        obs.astype(np.float64),
        obs[::-1].copy()[::-1],
    ):
        assert policy.outputs(same).tobytes() == expected


def test_huge_logits_do_not_overflow():
    weight, bias = np.zeros((1, 3), np.float32), np.array([1e4, 1e4, -1e4], np.float32)
    policy = NumpyPolicy(PolicyParameters((weight,), (bias,), "relu"))
    action, log_prob = policy.act_batch(np.zeros((50, 1)), streams(50))
    assert set(action.tolist()) == {0, 1}
    assert log_prob.tolist() == pytest.approx([-np.log(2)] * 50)


def pickled_size(policy: NumpyPolicy) -> int:
    return len(pickle.dumps(policy))


@pytest.mark.parametrize(
    "copied",
    [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy],
    ids=["pickled", "copied"],
)
def test_a_copy_of_a_policy_is_small_and_acts_alike(copied):
    policy, obs = random_policy(), random_obs(20)
    policy.policy_version = 7
    fresh_size = pickled_size(policy)
    parameters = [*policy.parameters.weights, *policy.parameters.biases]
    assert fresh_size < sum(array.nbytes for array in parameters) + 2_000
    policy.act_batch(random_obs(500), streams(500))
    assert pickled_size(policy) == fresh_size, "what it remembers is not copied"
    policy.reset(3)
    other = copied(policy)
    assert other.policy_version == 7
    assert other.outputs(obs).tobytes() == policy.outputs(obs).tobytes()
    assert [other.act(row[None]) for row in obs] == [policy.act(row[None]) for row in obs]


def test_a_remembered_observation_gives_the_same_bits_without_a_forward_pass(monkeypatch):
    policy, obs = random_policy(), random_obs(30)
    first = policy.act_batch(obs, streams(30))

    def no_forward_pass(_: object) -> None:
        raise AssertionError("these observations are known")

    monkeypatch.setattr(policy, "outputs", no_forward_pass)
    shuffled = np.random.default_rng(0).permutation(np.tile(np.arange(30), 3))
    again = policy.act_batch(obs[shuffled], [streams(30)[n] for n in shuffled])
    for before, now in zip(first, again, strict=True):
        assert before[shuffled].tobytes() == now.tobytes()


def test_what_a_policy_remembers_is_bounded(monkeypatch):
    monkeypatch.setattr(numpy_policy, "REMEMBERED_OBSERVATIONS", 20)
    policy, obs = random_policy(), random_obs(300)
    expected = random_policy().act_batch(obs, streams(300))
    acted = []
    for n in range(0, len(obs), 7):
        acted.append(policy.act_batch(obs[n : n + 7], streams(300)[n : n + 7]))
        assert len(policy._memory._row_of) <= 20
        assert all(len(column) <= 2 * 20 for column in policy._memory._columns)
    for column, whole in enumerate(expected):
        assert np.concatenate([part[column] for part in acted]).tobytes() == whole.tobytes()


def test_threads_that_share_a_policy_act_as_alone(monkeypatch):
    monkeypatch.setattr(numpy_policy, "REMEMBERED_OBSERVATIONS", 50)
    shared, n_threads = random_policy(), 4
    acted: list[list[bytes]] = [[] for _ in range(n_threads)]

    def play(policy: NumpyPolicy, env: int, actions: list[bytes]) -> None:
        policy.reset(env, env)
        for row in random_obs(400, env):
            action, log_prob = policy.act(row[None], [env])
            actions.append(action.tobytes() + log_prob.tobytes())

    threads = [
        threading.Thread(target=play, args=(shared, env, acted[env])) for env in range(n_threads)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            pickle.dumps(shared)
    finally:
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    for env, actions in enumerate(acted):
        alone: list[bytes] = []
        play(random_policy(), env, alone)
        assert actions == alone


def test_the_same_bytes_in_another_type_are_another_observation():
    policy, obs = random_policy(greedy=True), np.full((1, OBS_DIM), -1, np.int8)
    both = (obs, obs.view(np.uint8))
    alone = [NumpyPolicy(policy.parameters, greedy=True).act(one) for one in both]
    assert [policy.act(one) for one in both] == alone
