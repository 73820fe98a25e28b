import copy

import pytest
import torch
from torch import Tensor

from workflow_rl.agents.ppo.adam import FusedAdam

SHAPES = ((3, 5), (5,), (2, 2))
GRADIENTS = [
    [torch.randn(shape, generator=torch.Generator().manual_seed(step)) for shape in SHAPES]
    for step in range(6)
]


def parameters() -> list[Tensor]:
    return [torch.ones(shape, requires_grad=True) for shape in SHAPES]


def learn(optimizer: FusedAdam | torch.optim.Adam, tensors: list[Tensor], steps: list[int]) -> None:
    """Make such steps. The last parameter has no gradient in the first step of all."""
    for step in steps:
        optimizer.zero_grad()
        for number, tensor in enumerate(tensors):
            if (step, number) != (0, 2):
                tensor.grad = GRADIENTS[step][number].clone()
        optimizer.step()


def as_torch(tensors: list[Tensor]) -> torch.optim.Adam:
    return torch.optim.Adam(tensors, lr=0.01, eps=1e-5, fused=True)


def test_weights_and_state_are_torchs_to_the_bit():
    ours, theirs = parameters(), parameters()
    adam, torchs = FusedAdam(ours, 0.01, 1e-5), as_torch(theirs)
    learn(adam, ours, [0, 1, 2])
    learn(torchs, theirs, [0, 1, 2])
    adam.learning_rate = torchs.param_groups[0]["lr"] = 0.002
    learn(adam, ours, [3, 4])
    learn(torchs, theirs, [3, 4])
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
    state, expected = adam.state_dict()["state"], torchs.state_dict()["state"]
    assert state.keys() == expected.keys()
    for number, tensors in expected.items():
        assert state[number].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(state[number][name], tensor)
            assert state[number][name].dtype == tensor.dtype


def test_it_goes_on_from_what_torchs_kept():
    ours, theirs = parameters(), parameters()
    torchs = as_torch(theirs)
    learn(torchs, theirs, [0, 1])
    adam, kept = FusedAdam(ours, 0.01, 1e-5), copy.deepcopy(torchs.state_dict())
    adam.load_state_dict(torchs.state_dict())
    with torch.no_grad():
        for one, other in zip(ours, theirs, strict=True):
            one.copy_(other)
    learn(adam, ours, [2, 3])
    assert torch.equal(kept["state"][0]["exp_avg"], torchs.state_dict()["state"][0]["exp_avg"])
    learn(torchs, theirs, [2, 3])
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("number", [-1, len(SHAPES), "0", True])
def test_a_parameter_that_is_not_there_is_refused(number):
    adam = FusedAdam(parameters(), 0.01, 1e-5)
    with pytest.raises(ValueError, match="another network"):
        adam.load_state_dict({"state": {number: {}}})


def test_without_a_gradient_nothing_is_learned():
    tensors = parameters()
    adam = FusedAdam(tensors, 0.01, 1e-5)
    adam.step()
    assert all(torch.equal(*pair) for pair in zip(tensors, parameters(), strict=True))
    assert adam.state == {}
