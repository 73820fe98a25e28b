import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.mbpo.dynamics import (
    LOG_VARIANCE_LIMITS,
    Dynamics,
    Rows,
    bernoulli_derivatives,
    bernoulli_loss,
    bounded,
    encoded,
    gaussian_derivatives,
    gaussian_loss,
    nearest,
)
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import SquashedGaussian
from workflow_rl.agents.replay import Transitions

SMALL = MBPOConfig(
    model_members=3,
    model_elites=2,
    model_hidden_sizes=(32,),
    model_learning_rate=1e-2,
    model_epochs=60,
    model_patience=10,
)


def model(bits: bool, distribution: Distribution, obs_dim: int, **changes: Any) -> Dynamics:
    config = MBPOConfig(**{**vars(SMALL), **changes})
    return Dynamics(config, obs_dim, distribution, bits, seed=0)


def flipping(n_steps: int, seed: int = 0) -> Transitions:
    """Two bits: action 0 keeps them, 1 flips the first; the second is 1 a quarter of the time. The
    reward is -3 if both are 1 next; the first being 1 next, with the second, ends the episode."""
    random = np.random.default_rng(seed)
    obs = random.integers(0, 2, (n_steps, 2)).astype(np.uint8)
    action = random.integers(0, 2, n_steps)
    next_obs = np.stack([obs[:, 0] ^ action, random.random(n_steps) < 0.25], axis=1)
    both = next_obs.all(axis=1)
    return Transitions(obs, action, -3.0 * both, next_obs.astype(np.uint8), both)


def moving(n_steps: int, seed: int = 0) -> Transitions:
    """Positions of order 100, which the action moves by a tenth of it, and noise of 0.01."""
    random = np.random.default_rng(seed)
    obs = random.uniform(-100, 100, (n_steps, 1))
    action = random.uniform(-1, 1, (n_steps, 1)).astype(np.float32)
    next_obs = obs + 0.1 * action + 0.01 * random.standard_normal((n_steps, 1))
    none = np.zeros(n_steps, np.bool_)
    return Transitions(obs, action, 2.0 * action[:, 0], next_obs, none)


def test_bernoulli_loss_by_hand() -> None:
    logits = np.array([[0.0, math.log(3)]], np.float32)  # Probabilities 1/2 and 3/4.
    bits = np.array([[1.0, 0.0]], np.float32)
    assert bernoulli_loss(logits, bits).tolist() == pytest.approx([math.log(2) + math.log(4)])
    assert bernoulli_derivatives(logits, bits)[0].tolist() == pytest.approx([-0.5, 0.75])


def test_gaussian_loss_by_hand() -> None:
    outputs = np.array([[1.0, 0.0, -2.0, -3.0]], np.float32)
    logs = bounded(outputs[:, 2:])[0][0]
    loss = gaussian_loss(outputs, np.array([[3.0, 2.0]], np.float32))
    expected = 0.5 * (4 * np.exp(-logs).sum() + logs.sum())
    assert loss.tolist() == pytest.approx([expected], rel=1e-5)


Of = Callable[..., np.ndarray]


@pytest.mark.parametrize(
    ("loss", "derivatives_of", "n_values"),
    [
        (bernoulli_loss, bernoulli_derivatives, 4),
        (gaussian_loss, gaussian_derivatives, 2),
    ],
)
def test_derivatives_are_those_of_the_loss(loss: Of, derivatives_of: Of, n_values: int) -> None:
    random = np.random.default_rng(0)
    outputs = random.normal(0, 2, (1, 4)).astype(np.float64)
    value = random.random((1, n_values))
    derivatives = derivatives_of(outputs, value)
    for k, nudge in enumerate(1e-4 * np.eye(4)):
        rise = loss(outputs + nudge, value) - loss(outputs - nudge, value)
        assert derivatives[0, k] == pytest.approx(rise[0] / 2e-4, rel=1e-3, abs=1e-4)


def test_log_variances_are_bounded() -> None:
    low, high = LOG_VARIANCE_LIMITS
    ends, slopes = bounded(np.array([-1e3, 1e3, -4.0], np.float32))
    assert ends[0] == pytest.approx(low, abs=1e-3)
    assert ends[1] == pytest.approx(high, abs=1e-3)
    assert ends[2] == pytest.approx(-4.0, abs=0.05)
    assert slopes.tolist() == pytest.approx([0, 0, 1], abs=0.02)


def test_actions_as_networks_read_them() -> None:
    assert encoded(Categorical(3), np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    bounded = SquashedGaussian((0.0,), (4.0,))
    assert encoded(bounded, np.array([[1.0]])).tolist() == [[-0.5]]


def test_bits_are_learned() -> None:
    dynamics = model(True, Categorical(2), 2)
    fit = dynamics.fit(flipping(1000), np.random.default_rng(0))

    unseen = flipping(4000, seed=1)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert fit.obs_loss == pytest.approx(entropy, abs=0.06)
    assert fit.reward_error < 0.3
    imagined, ended = dynamics.imagine(unseen.obs, unseen.action, np.random.default_rng(2))
    assert imagined.next_obs.dtype == np.uint8
    assert (imagined.next_obs[:, 0] != unseen.next_obs[:, 0]).mean() < 0.01
    assert imagined.next_obs[:, 1].mean() == pytest.approx(0.25, abs=0.04)
    both = imagined.next_obs.all(axis=1)
    assert np.abs(imagined.reward + 3 * both).mean() < 0.2
    assert np.abs(imagined.terminated - both).mean() < 0.02
    assert (ended == both).mean() > 0.98


def test_real_numbers_are_learned_as_changes() -> None:
    dynamics = model(False, SquashedGaussian((-1.0,), (1.0,)), 1)
    fit = dynamics.fit(moving(1000), np.random.default_rng(0))

    unseen = moving(2000, seed=1)
    expected = unseen.obs + 0.1 * unseen.action
    imagined, ended = dynamics.imagine(unseen.obs, unseen.action, np.random.default_rng(2))
    assert abs((imagined.next_obs - expected).mean()) < 0.002
    assert (imagined.next_obs - expected).std() == pytest.approx(0.01, rel=0.3)
    assert np.abs(imagined.reward - unseen.reward).mean() < 0.2
    assert not imagined.terminated.any()
    assert not ended.any()
    assert fit.reward_error < 0.3


def test_an_end_is_told_by_its_probability_and_a_draw() -> None:
    dynamics = model(False, SquashedGaussian((-1.0,), (1.0,)), 1)
    dynamics.ends_seen = True
    dynamics.outcome.weights[-1][...] = 0
    dynamics.outcome.biases[-1][...] = [0.0, math.log(3)]
    steps = moving(4000)
    imagined, ended = dynamics.imagine(steps.obs, steps.action, np.random.default_rng(2))
    assert imagined.terminated.dtype == np.float32
    assert imagined.terminated == pytest.approx(0.75)
    assert ended.mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int64])
def test_whole_numbers_are_learned_as_changes(dtype: type) -> None:
    """Action 1 goes up by 3 and 0 goes down by 3, as far as the range of 256 numbers goes."""
    dynamics = model(False, Categorical(2), 1)
    random, shift = np.random.default_rng(0), 128 if dtype is np.int8 else 0
    obs, action = random.integers(0, 256, (1000, 1)), random.integers(0, 2, 1000)
    next_obs = (obs + 6 * action[:, None] - 3).clip(0, 255) - shift
    none, obs = np.zeros(1000, np.bool_), obs - shift
    steps = Transitions(obs.astype(dtype), action, 1.0 * action, next_obs.astype(dtype), none)
    dynamics.fit(steps, np.random.default_rng(0))

    expected = steps.next_obs.astype(float)
    imagined = dynamics.imagine(steps.obs, steps.action, np.random.default_rng(2))[0].next_obs
    assert imagined.dtype == dtype
    assert np.abs(imagined - expected).max() <= 6  # At the ends of the range too.
    assert abs((imagined - expected).mean()) < 0.1


@given(
    number=st.floats(width=64, allow_nan=False),
    dtype=st.sampled_from(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]),
)
def test_the_nearest_whole_number_of_a_type(number: float, dtype: str) -> None:
    range_ = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        found = nearest(np.array([number]), np.dtype(dtype))
    finite = max(min(number, 1e300), -1e300)
    assert found.dtype == dtype
    assert found[0] == max(range_.min, min(range_.max, round(finite)))


def test_the_members_that_predict_best_are_the_elites() -> None:
    dynamics = model(True, Categorical(2), 2, model_elites=1)
    for networks in (dynamics.next_obs, dynamics.outcome):  # Two that cannot learn.
        for array in (*networks.weights, *networks.biases):
            array[[0, 2]] = 0
    dynamics.fit(flipping(500), np.random.default_rng(0))
    assert dynamics.elites == [1]


def test_fitting_stops_when_it_gets_no_better() -> None:
    steps = flipping(300)
    patient = model(True, Categorical(2), 2, model_epochs=400, model_patience=2)
    fit = patient.fit(steps, np.random.default_rng(0))
    assert 1 < fit.epochs < 400
    again = patient.fit(steps, np.random.default_rng(1))
    assert again.epochs < fit.epochs


def test_a_member_goes_back_to_when_it_predicted_best(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = flipping(60)
    many = {"model_epochs": 80, "model_patience": 80, "model_batch_size": 8}
    one = model(True, Categorical(2), 2, **many)
    losses = Dynamics._losses
    held_out: list[Rows] = []
    scores: list[tuple[NDArray[np.float32], ...]] = []

    def noted(self: Dynamics, rows: Rows) -> tuple[NDArray[np.float32], ...]:
        held_out.append(rows)
        scores.append(losses(self, rows))
        return scores[-1]

    monkeypatch.setattr(Dynamics, "_losses", noted)
    fit = one.fit(steps, np.random.default_rng(0))
    now = losses(one, held_out[-1])
    sums = np.array([np.sum(each, axis=0) for each in scores])
    # Few steps are learned by heart: the last epochs are not the best ones. What was less of an
    # improvement than a thousandth does not count.
    assert (sums[-1] > 1.05 * sums.min(axis=0)).any()
    np.testing.assert_allclose(np.sum(now, axis=0), sums.min(axis=0), rtol=2e-3)
    assert fit.obs_loss == pytest.approx(now[0][one.elites].mean(), rel=1e-6)
    assert one.elites == np.argsort(np.sum(now, axis=0))[: len(one.elites)].tolist()


@pytest.mark.parametrize(
    "change", [{"elites": []}, {"elites": [7]}, {"scales": [torch.ones(3)] * 4}]
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    dynamics = model(True, Categorical(2), 2)
    with pytest.raises(ValueError, match=r"its|numbers"):
        dynamics.load_state_dict({**dynamics.state_dict(), **change})
