"""Masks of actions: acting, log-probabilities, entropies and divergences, computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from workflow_rl.agents.policies.distributions import Categorical, masked, torch_masked
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian, MultiCategorical
from workflow_rl.agents.policies.mlp import MLP
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.ppo.losses import approximate_kl

# Probabilities 1/2, 1/4, 1/8, 1/8. Without the first action: 1/2, 1/4, 1/4.
LOGITS = np.log(np.array([[4, 2, 1, 1]], np.float32))
MASK = np.array([[0, 1, 1, 1]], np.uint8)
ENTROPY = math.log(2) / 2 + math.log(4) / 2


def test_an_impossible_action_is_never_taken_and_the_others_share_its_probability() -> None:
    one = Categorical(4)
    prepared = one.prepare(masked(LOGITS, MASK))
    assert one.mode(prepared, np.array([0]))[0].tolist() == [1]
    uniforms = np.array([[0.0], [0.49], [0.51], [0.74], [0.76], [np.nextafter(1, 0)]])
    rows = np.zeros(len(uniforms), np.int64)
    actions, log_probs = one.sample(prepared, rows, uniforms)
    assert actions.tolist() == [1, 1, 2, 2, 3, 3]
    expected = np.log([0.5, 0.5, 0.25, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(log_probs, expected, rtol=1e-6)


def test_the_learner_sees_the_same_probabilities() -> None:
    outputs = torch.tensor(LOGITS, requires_grad=True)
    log_prob, entropy = Categorical(4).log_prob_and_entropy(
        torch_masked(outputs, torch.tensor(MASK)),
        None,
        torch.tensor([0, 0]),
        torch.tensor([1, 3]),
    )
    assert log_prob.tolist() == pytest.approx([math.log(0.5), math.log(0.25)])
    assert entropy.tolist() == pytest.approx([ENTROPY, ENTROPY])
    log_prob[0].backward()
    # Of a softmax: 1 - p of the action, -p of the others, and nothing of what is impossible.
    assert outputs.grad is not None
    assert outputs.grad[0].tolist() == pytest.approx([0, 0.5, -0.25, -0.25])
    outputs.grad = None
    log_prob, entropy = Categorical(4).log_prob_and_entropy(
        torch_masked(outputs, torch.tensor(MASK)), None, None, torch.tensor([1])
    )
    entropy.sum().backward()
    # dH/dx = -p (log p + H)
    expected = [0, -0.5 * (math.log(0.5) + ENTROPY), *2 * [-0.25 * (math.log(0.25) + ENTROPY)]]
    assert outputs.grad[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_the_divergence_between_two_masked_policies() -> None:
    # Of actions that the old policy took, in its proportions: 2 of the second, 1 of each other.
    action = torch.tensor([1, 1, 2, 3])
    row = torch.zeros(4, dtype=torch.int64)
    after = torch.tensor(np.log(np.array([[9, 1, 2, 1]], np.float32)))
    old, new = (
        Categorical(4).log_prob_and_entropy(
            torch_masked(one, torch.tensor(MASK)), None, row, action
        )[0]
        for one in (torch.tensor(LOGITS), after)
    )
    # p = 1/2, 1/4, 1/4 and q = 1/4, 1/2, 1/4: KL = 1/2 log 2 + 1/4 log 1/2 = 1/4 log 2.
    assert float(approximate_kl(new - old)) == pytest.approx(math.log(2) / 4)


def test_each_choice_of_several_has_its_own_mask() -> None:
    both = MultiCategorical([2, 3])
    outputs = np.log(np.array([[1, 3, 1, 1, 2]], np.float32))
    mask = np.array([[1, 1, 1, 0, 1]], np.uint8)
    prepared = both.prepare(masked(outputs, mask))
    action, log_prob = both.mode(prepared, np.array([0]))
    assert action.tolist() == [[1, 2]]
    assert log_prob.tolist() == pytest.approx([math.log(3 / 4 * 2 / 3)])
    drawn, _ = both.sample(prepared, np.zeros(2, np.int64), np.array([[0.1, 0.1], [0.3, 0.34]]))
    assert drawn.tolist() == [[0, 0], [1, 2]]
    in_torch, entropy = both.log_prob_and_entropy(
        torch_masked(torch.tensor(outputs), torch.tensor(mask)),
        None,
        None,
        torch.tensor(action),
    )
    assert in_torch.tolist() == pytest.approx([math.log(1 / 2)])
    first = -(1 / 4 * math.log(1 / 4) + 3 / 4 * math.log(3 / 4))
    second = -(1 / 3 * math.log(1 / 3) + 2 / 3 * math.log(2 / 3))
    assert entropy.tolist() == pytest.approx([first + second])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_policy_reads_the_mask_at_the_end_of_an_observation(dtype: type) -> None:
    network = MLP(3, (4,), 4, "tanh")
    layers = network.layers(network.module(1.0, torch.Generator().manual_seed(0)).state_dict())
    moments = (np.full(3, 0.5, np.float32), np.full(3, 2, np.float32))
    parameters = PolicyParameters(*layers, "tanh", None, *moments, Categorical(4), masked=True)
    policy = NumpyPolicy(parameters)
    numbers = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 0]], dtype)
    masks = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]], dtype)
    obs = np.concatenate([numbers, masks], axis=1)
    plain = NumpyPolicy(parameters._replace(masked=False)).outputs(numbers)
    np.testing.assert_array_equal(policy.outputs(obs), np.where(masks > 0, plain, -np.inf))
    with torch.no_grad():
        np.testing.assert_allclose(
            TorchActor(parameters)(torch.tensor(obs, dtype=torch.float32)),
            policy.outputs(obs),
            rtol=1e-5,
        )
    for env in range(3):
        policy.reset(env, env)
    # The second time what was computed for the same observations is remembered.
    for _ in range(2):
        for _ in range(20):
            actions, _ = policy.act(obs, range(3))
            assert masks[range(3), actions].all()
    with pytest.raises(ValueError, match=r"\(3, 7\)"):
        policy.act(numbers, range(3))


def test_numbers_take_no_masks() -> None:
    assert not DiagonalGaussian(2).takes_masks
    assert Categorical(2).takes_masks
