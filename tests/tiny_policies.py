"""Actors with random weights."""

from typing import Any

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.spaces import Spaces


def linear_policy(n_inputs: int, distribution: Distribution, masked: bool) -> PolicyParameters:
    network = ActorCritic(n_inputs, distribution, (), "tanh", seed=1, masked=masked)
    return network.policy_parameters()


def actor_for(spaces: Spaces) -> Any:
    """Return an actor of single agents or of a team."""
    layout = spaces.team
    if layout is None:
        return NumpyPolicy(linear_policy(spaces.obs_dim, spaces.distribution, spaces.masked))
    sizes = zip(layout.agents, layout.obs_sizes, layout.n_actions, strict=True)
    members = {name: linear_policy(d, Categorical(n), masked=True) for name, d, n in sizes}
    policies = {name: (k,) for k, name in enumerate(layout.agents)}
    return TeamParameters(layout, policies, members).actor()
