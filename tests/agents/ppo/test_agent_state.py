import pytest
import torch

from tests.agents.examples import through_a_file
from tests.agents.ppo.small_agents import TRAJECTORIES, example_agent, weights

NORMALISED = {"normalise_obs": True, "normalise_returns": True}


@pytest.mark.parametrize("settings", [{}, NORMALISED], ids=["plain", "normalised"])
@pytest.mark.parametrize("keep", [through_a_file, lambda state: state], ids=["file", "memory"])
def test_a_restored_agent_goes_on_to_the_same_bits(keep, settings):
    agent = example_agent(**settings)
    for _ in range(3):
        agent.update(TRAJECTORIES, 0.0)
    state = keep(agent.state_dict())
    restored = [example_agent(seed=seed, **settings) for seed in (7, 8)]
    for other in restored:
        other.load_state_dict(state)
    # In turns: an agent must not share its optimizer's state with another, or with `state`.
    for _ in range(2):
        expected = agent.update(TRAJECTORIES, 0.5)
        for other in restored:
            assert other.update(TRAJECTORIES, 0.5) == expected
            assert weights(other) == weights(agent)
            assert other.policy_version == agent.policy_version
    late = example_agent(seed=9, **settings)
    late.load_state_dict(state)
    assert late.policy_version == 3
    for _ in range(2):
        late.update(TRAJECTORIES, 0.5)
    assert weights(late) == weights(agent)
    for kept in ("obs_moments", "return_scale"):
        assert late.state_dict().get(kept) == agent.state_dict().get(kept)


@pytest.mark.parametrize("moment", ["exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize("shape", [(1,), (999, 999)])
def test_an_optimizer_of_another_network_is_refused(moment, shape):
    agent = example_agent()
    agent.update(TRAJECTORIES, 0.0)
    state = agent.state_dict()
    state["optimizer"]["state"][0][moment] = torch.zeros(shape)
    with pytest.raises(ValueError, match="another network"):
        example_agent().load_state_dict(state)
