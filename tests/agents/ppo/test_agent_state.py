"""An agent of PPO that is saved, restored, or begins with another's weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.agents.ppo.small_agents import CONFIG, TRAJECTORIES, example_agent, weights
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.spaces import Spaces
from workflow_rl.runs.checkpoint_file import read_values, write_values


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_values(Path(folder, "state"), state)
        return read_values(Path(folder, "state"))


@pytest.mark.parametrize("keep", [through_a_file, lambda state: state], ids=["file", "memory"])
def test_a_restored_agent_goes_on_to_the_same_bits(keep: Any) -> None:
    agent = example_agent()
    for _ in range(3):
        agent.update(TRAJECTORIES, 0.0)
    state = keep(agent.state_dict())
    restored = [example_agent(seed=7), example_agent(seed=8)]
    for other in restored:
        other.load_state_dict(state)
    # In turns: an agent must not share its optimizer's state with another, or with `state`.
    for _ in range(2):
        expected = agent.update(TRAJECTORIES, 0.5)
        for other in restored:
            assert other.update(TRAJECTORIES, 0.5) == expected
            assert weights(other) == weights(agent)
            assert other.policy_version == agent.policy_version
    late = example_agent(seed=9)
    late.load_state_dict(state)
    assert late.policy_version == 3
    for _ in range(2):
        late.update(TRAJECTORIES, 0.5)
    assert weights(late) == weights(agent)


def test_an_agent_that_begins_with_anothers_weights_goes_on_with_none_of_its_episodes() -> None:
    other = example_agent(normalise_returns=True)
    going_on = TRAJECTORIES[0]._replace(truncated=False)
    other.update([going_on], 0.0)
    students = [example_agent(normalise_returns=True) for _ in range(2)]
    for number, student in enumerate(students):
        student.load_policy(other.state_dict())
        student.update([TRAJECTORIES[1]._replace(episode=number)], 0.0)
    numbers = [student.state_dict()["return_scale"] for student in students]
    assert numbers[0] == numbers[1]


def test_the_optimizers_state_matters() -> None:
    # Otherwise the test above could not tell whether it is restored.
    agent, other = example_agent(), example_agent(seed=7)
    agent.update(TRAJECTORIES, 0.0)
    other.load_state_dict(agent.state_dict() | {"optimizer": other.state_dict()["optimizer"]})
    agent.update(TRAJECTORIES, 0.0)
    other.update(TRAJECTORIES, 0.0)
    assert weights(other) != weights(agent)


def test_policy_parameters_follow_the_updates_and_copies_do_not() -> None:
    agent = example_agent()
    copy = agent.policy_parameters()
    before = [array.tobytes() for array in (*copy.weights, *copy.biases)]
    agent.update(TRAJECTORIES, 0.0)
    assert [array.tobytes() for array in (*copy.weights, *copy.biases)] == before
    after = agent.policy_parameters()
    assert [array.tobytes() for array in (*after.weights, *after.biases)] != before


@pytest.mark.parametrize(
    ("obs_dim", "n_actions", "hidden_sizes"),
    [(7, 4, (16,)), (6, 5, (16,)), (6, 4, (17,)), (6, 4, (16, 16))],
    ids=["obs_dim", "n_actions", "hidden size", "hidden layers"],
)
def test_a_state_of_another_shape_is_refused(
    obs_dim: int, n_actions: int, hidden_sizes: tuple[int, ...]
) -> None:
    config = CONFIG.changed(hidden_sizes=hidden_sizes)
    other = PPOAgent(config, Spaces(obs_dim, Categorical(n_actions)), seed=0)
    with pytest.raises(
        (RuntimeError, ValueError), match=r"size mismatch|Unexpected key|this run has"
    ):
        example_agent().load_state_dict(other.state_dict())


@pytest.mark.parametrize("moment", ["exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize("shape", [(1,), (999, 999)])
def test_an_optimizer_of_another_network_is_refused(moment: str, shape: tuple[int, ...]) -> None:
    agent = example_agent()
    agent.update(TRAJECTORIES, 0.0)
    state = agent.state_dict()
    state["optimizer"]["state"][0][moment] = torch.zeros(shape)
    with pytest.raises(ValueError, match="another network"):
        example_agent().load_state_dict(state)
