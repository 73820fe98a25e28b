from __future__ import annotations

import copy
import itertools
import pickle
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workflow_rl.agents.policies import numpy_policy
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
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


def policy_of(probabilities: Sequence[float], greedy: bool = False) -> NumpyPolicy:
    """A policy that chooses with these probabilities whatever it observes (one number)."""
    weight = np.zeros((1, len(probabilities)), np.float32)
    bias = np.log(np.array(probabilities, np.float32))
    return NumpyPolicy(PolicyParameters((weight,), (bias,), "tanh"), greedy=greedy)


def random_obs(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, OBS_DIM), np.uint8)


def streams(n: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(n)]


class FixedRandom(np.random.Generator):
    """A generator that always draws `number`."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
        return self.number


@pytest.fixture
def network(request: pytest.FixtureRequest) -> ActorCritic:
    """Random weights and biases of order 1: unlike at the start, logits are far from uniform."""
    network = ActorCritic(OBS_DIM, Categorical(N_ACTIONS), HIDDEN_SIZES, request.param, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 0.5
            parameter.normal_(0, 2 * scale, generator=generator)
    return network


@pytest.mark.parametrize("network", ["tanh", "relu"], indirect=True)
def test_logits_equal_torchs(network: ActorCritic) -> None:
    obs = random_obs(300)
    with torch.no_grad():
        expected, _ = network(torch.from_numpy(obs.astype(np.float32)))
    logits = NumpyPolicy(network.policy_parameters()).outputs(obs)
    assert logits.dtype == np.float32
    assert expected.std() > 0.5
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("network", ["tanh", "relu"], indirect=True)
@pytest.mark.parametrize("greedy", [False, True])
def test_log_probs_equal_torchs(network: ActorCritic, greedy: bool) -> None:
    obs = random_obs(300)
    policy = NumpyPolicy(network.policy_parameters(), greedy=greedy)
    action, log_prob = policy.act_batch(obs, streams(300))
    with torch.no_grad():
        log_probs = torch.log_softmax(network(torch.from_numpy(obs.astype(np.float32)))[0], dim=-1)
    assert action.dtype == np.int64
    assert log_prob.dtype == np.float32
    np.testing.assert_allclose(log_prob, log_probs.numpy()[np.arange(300), action], atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@settings(max_examples=40)
@given(
    split=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    obs_seed=st.integers(0, 2**32 - 1),
    greedy=st.booleans(),
)
def test_every_split_of_a_batch_gives_the_same_bits(
    activation: str, split: list[int], obs_seed: int, greedy: bool
) -> None:
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
def test_the_layout_of_the_observations_in_memory_makes_no_difference(
    sizes: tuple[int, ...],
) -> None:
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


def test_act_is_a_batch_of_one() -> None:
    policy, obs = random_policy(), random_obs(20)
    policy.reset(5)
    alone = [policy.act(row[None]) for row in obs]
    stream = np.random.default_rng(5)
    for row, acted in zip(obs, alone, strict=True):
        assert acted == policy.act_batch(row[None], [stream])


def test_the_same_seed_gives_the_same_actions_and_another_seed_others() -> None:
    policy, obs = random_policy(), random_obs(30)

    def actions(seed: int) -> list[int]:
        policy.reset(seed)
        return [int(policy.act(row[None])[0][0]) for row in obs]

    first = actions(1)
    assert actions(2) != first
    assert actions(1) == first


def test_each_row_of_a_batch_has_its_own_random_stream() -> None:
    policy, obs = random_policy(), random_obs(8)
    action, _ = policy.act_batch(obs, streams(8))
    other_streams = streams(8)
    other_streams[3] = FixedRandom(0.0)
    changed, _ = policy.act_batch(obs, other_streams)
    assert (changed != action).tolist() == [n == 3 and action[3] != 0 for n in range(8)]
    drawn = streams(8)
    policy.act_batch(obs, drawn)
    for stream, fresh in zip(drawn, streams(8), strict=True):
        fresh.random()
        assert stream.random() == fresh.random()


@pytest.mark.parametrize(
    ("number", "action"), [(0.0, 0), (0.4, 0), (0.6, 1), (0.7, 1), (0.8, 3), (0.99, 3)]
)
def test_sampling_inverts_the_cumulative_distribution(number: float, action: int) -> None:
    # Cumulative probabilities 0.5, 0.75, 0.75, 1.
    with np.errstate(divide="ignore"):
        policy = policy_of([0.5, 0.25, 0.0, 0.25])
    actions, log_probs = policy.act_batch(np.zeros((1, 1)), [FixedRandom(number)])
    assert actions.tolist() == [action]
    assert np.exp(log_probs) == pytest.approx([0.5 if action == 0 else 0.25])


def test_a_draw_that_rounds_to_1_still_gives_an_action() -> None:
    almost_1 = np.nextafter(1.0, 0.0)
    assert np.float32(almost_1) == 1
    actions, _ = policy_of([0.5, 0.5]).act_batch(np.zeros((1, 1)), [FixedRandom(almost_1)])
    assert actions.tolist() == [1]


def test_a_draw_of_0_skips_an_impossible_first_action() -> None:
    with np.errstate(divide="ignore"):
        policy = policy_of([0.0, 1.0])
    assert policy.act_batch(np.zeros((1, 1)), [FixedRandom(0.0)])[0].tolist() == [1]


def test_sampling_frequencies_match_the_probabilities() -> None:
    probabilities = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    n = 20_000
    policy = policy_of(probabilities.tolist())
    action, _ = policy.act_batch(np.zeros((n, 1)), [np.random.default_rng(0)] * n)
    observed = np.bincount(action, minlength=5)

    def chi_square(expected: np.ndarray) -> float:
        return float(((observed - expected) ** 2 / expected).sum())

    # The 99.9 % quantile of the chi-square distribution with 4 degrees of freedom is 18.47.
    assert chi_square(n * probabilities) < 18.47
    slightly_off = probabilities + np.array([0.02, -0.02, 0, 0, 0])
    assert chi_square(n * slightly_off) > 18.47


def test_greedy_takes_the_likeliest_action_whatever_the_draw() -> None:
    obs = random_obs(100)
    expected = random_policy().outputs(obs).argmax(axis=1).tolist()
    greedy = random_policy(greedy=True)
    for number in (0.0, 0.999):
        assert greedy.act_batch(obs, [FixedRandom(number)] * 100)[0].tolist() == expected
    sampled, _ = random_policy().act_batch(obs, streams(100))
    assert sampled.tolist() != expected


def test_huge_logits_do_not_overflow() -> None:
    weight, bias = np.zeros((1, 3), np.float32), np.array([1e4, 1e4, -1e4], np.float32)
    policy = NumpyPolicy(PolicyParameters((weight,), (bias,), "relu"))
    action, log_prob = policy.act_batch(np.zeros((50, 1)), streams(50))
    assert set(action.tolist()) == {0, 1}
    assert log_prob.tolist() == pytest.approx([-np.log(2)] * 50)


def test_a_pickled_policy_is_small_and_acts_alike() -> None:
    policy, obs = random_policy(), random_obs(20)
    policy.policy_version = 7
    policy.reset(3)
    pickled = pickle.dumps(policy)
    parameters = [*policy.parameters.weights, *policy.parameters.biases]
    assert len(pickled) < sum(array.nbytes for array in parameters) + 2_000
    restored: NumpyPolicy = pickle.loads(pickled)
    assert restored.policy_version == 7
    assert restored.outputs(obs).tobytes() == policy.outputs(obs).tobytes()
    assert [restored.act(row[None]) for row in obs] == [policy.act(row[None]) for row in obs]


def test_a_remembered_observation_gives_the_same_bits_without_a_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, obs = random_policy(), random_obs(30)
    first = policy.act_batch(obs, streams(30))

    def no_forward_pass(_: object) -> None:
        raise AssertionError("these observations are known")

    monkeypatch.setattr(policy, "outputs", no_forward_pass)
    shuffled = np.random.default_rng(0).permutation(np.tile(np.arange(30), 3))
    again = policy.act_batch(obs[shuffled], [streams(30)[n] for n in shuffled])
    for before, now in zip(first, again, strict=True):
        assert before[shuffled].tobytes() == now.tobytes()


def test_what_a_policy_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_policy, "REMEMBERED_OBSERVATIONS", 20)
    policy, obs = random_policy(), random_obs(300)
    expected = random_policy().act_batch(obs, streams(300))
    acted = []
    for n, part in _parts_of(obs, 7):
        acted.append(policy.act_batch(part, streams(300)[n : n + 7]))
        assert len(policy._memory._row_of) <= 20
        assert all(len(column) <= 2 * 20 for column in policy._memory._columns)
    for column, whole in enumerate(expected):
        assert np.concatenate([part[column] for part in acted]).tobytes() == whole.tobytes()


def _parts_of(obs: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    return [(n, obs[n : n + size]) for n in range(0, len(obs), size)]


def test_a_used_policy_is_pickled_without_its_memory() -> None:
    policy, fresh = random_policy(), random_policy()
    policy.act_batch(random_obs(500), streams(500))
    assert len(pickle.dumps(policy)) == len(pickle.dumps(fresh))


def test_envs_have_random_streams_of_their_own() -> None:
    policy, obs = random_policy(), random_obs(12)
    for env, seed in ((3, 30), (7, 70)):
        policy.reset(seed, env)
    together = [policy.act(np.stack([row, row]), [3, 7])[0] for row in obs]
    for column, seed in enumerate((30, 70)):
        policy.reset(seed)
        alone = [policy.act(row[None])[0][0] for row in obs]
        assert [actions[column] for actions in together] == alone


def test_threads_that_share_a_policy_act_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in an env of its own, while memory grows and is forgotten."""
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


def test_the_same_bytes_in_another_type_are_another_observation() -> None:
    policy, obs = random_policy(greedy=True), np.full((1, OBS_DIM), -1, np.int8)
    both = (obs, obs.view(np.uint8))
    alone = [NumpyPolicy(policy.parameters, greedy=True).act(one) for one in both]
    assert [policy.act(one) for one in both] == alone


def test_a_copy_of_a_policy_that_has_acted_acts_alike() -> None:
    policy, obs = random_policy(), random_obs(20)
    policy.act(obs[:1])
    copied = copy.deepcopy(policy)
    assert [copied.act(row[None]) for row in obs] == [policy.act(row[None]) for row in obs]
