from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import Mixed, MultiCategorical, from_plain
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.environments.flat_env import distribution_over, unflattener

FAR = np.random.default_rng(0).normal(scale=30, size=(40, 3)).astype(np.float32)
"""Observations for which an untrained network answers with numbers beyond -1 and 1."""
FINITE, END = st.floats(-1e4, 1e4, width=32), st.sampled_from([-np.inf, np.inf])


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Space[Any]:
    low, high = [], []
    for _ in range(draw(st.integers(1, 4))):
        least = draw(FINITE)
        width = draw(st.floats(abs(least) * 2**-10 + 1e-3, 1e5))
        kind = draw(st.sampled_from(["two", "low", "high", "none", "equal"]))
        low.append(-np.inf if kind in ("high", "none") else least)
        high.append({"two": least + width, "high": least, "equal": least}.get(kind, np.inf))
    dtype: Any = draw(st.sampled_from([np.float32, np.float64]))
    return spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


OTHERS: list[spaces.Space[Any]] = [
    spaces.Discrete(3, start=5),
    spaces.MultiBinary(3),
    spaces.Box(-2, 3, (2,), np.int64),
    spaces.MultiDiscrete([2, 3]),
]
SPACES = st.one_of(
    boxes(),
    st.builds(lambda box, other: spaces.Tuple([other, box]), boxes(), st.sampled_from(OTHERS)),
    st.builds(lambda box, other: spaces.Dict(a=box, b=other), boxes(), st.sampled_from(OTHERS)),
    st.sampled_from(OTHERS),
)


def likeliest(distribution: Distribution, outputs: np.ndarray) -> np.ndarray:
    """What a user of an exported network makes of the outputs [M, n_outputs]."""
    if isinstance(distribution, Mixed):
        parts = zip(distribution.parts, distribution.outputs, strict=True)
        return np.concatenate([likeliest(part, outputs[:, of]) for part, of in parts], axis=1)
    if isinstance(distribution, MultiCategorical):
        return np.stack([outputs[:, of].argmax(axis=1) for of in distribution.outputs], axis=1)
    if isinstance(distribution, Categorical):
        return outputs.argmax(axis=1)[:, None]
    return outputs


def exported(policy: PolicyParameters, obs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        outputs: np.ndarray = TorchActor(policy)(torch.from_numpy(obs)).numpy()
    return outputs


def policy_for(space: spaces.Space[Any]) -> PolicyParameters:
    distribution = from_plain(distribution_over(space).to_plain())
    policy = ActorCritic(3, distribution, (8,), "tanh", seed=1).policy_parameters()
    return policy._replace(weights=(*policy.weights[:-1], policy.weights[-1] * 100))


@given(space=SPACES)
def test_an_exported_network_stays_in_the_space_of_its_actions(space):
    policy = policy_for(space)
    distribution, make = distribution_over(space), unflattener(space)
    ours, _ = NumpyPolicy(policy, greedy=True).act_batch(FAR, [])
    theirs = likeliest(distribution, exported(policy, FAR))
    for action, numbers in zip(ours, distribution.taken(theirs), strict=True):
        if isinstance(space, spaces.Box) and space.dtype.kind == "f":
            assert space.contains(np.asarray(numbers, space.dtype)), numbers
        wanted, made = (spaces.flatten(space, make(of)) for of in (action, numbers))
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-3)


def test_bounds_between_which_float32_rounds():
    space = spaces.Box(0.1, 0.7, (2,), np.float64)
    outputs = exported(policy_for(space), FAR).astype(np.float64)
    assert outputs.min() >= 0.1
    assert outputs.max() <= 0.7
    assert {*np.round(outputs.ravel(), 6).tolist()} >= {0.1, 0.7}


def test_an_older_file_knows_no_ends():
    older = from_plain(["ScaledGaussian", [[500.0], [500.0]]])
    assert older == distribution_over(spaces.Box(0, 1000, (1,)))
    policy = ActorCritic(3, older, (), "tanh", seed=1).policy_parameters()
    far = policy._replace(biases=(np.array([9.0], np.float32),))
    assert exported(far, np.zeros((1, 3), np.float32)) == 5000
