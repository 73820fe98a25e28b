"""Policies and values from an agent's `state_dict()`. No agent is made, and no torch imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.further_distributions import from_plain
from workflow_rl.agents.policies.network import Layers
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import PolicyParameters

if TYPE_CHECKING:
    from workflow_rl.agents.policies.network import Network
    from workflow_rl.agents.policies.team_policy import TeamParameters
    from workflow_rl.agents.settings import NetworkSettings
    from workflow_rl.agents.team import PolicyMap, TeamLayout


def saved_number(state: Mapping[str, Any], name: str) -> int:
    """Return a count or a seed of a `state_dict()`. Raises ValueError for other values."""
    number = state.get(name)
    if type(number) is not int or not 0 <= number < 2**63:
        raise ValueError(f"its {name} is {number!r:.50}")
    return number


def saved_flag(state: Mapping[str, Any], name: str) -> bool:
    """Return a truth value of a `state_dict()`, by default False. Raises ValueError for another
    value."""
    flag = state.get(name, False)
    if type(flag) is not bool:
        raise ValueError(f"its {name} is {flag!r:.50}")
    return flag


def saved_further(state: Mapping[str, Any]) -> int:
    """Return the number of values in observations for the critic only. Raises ValueError for a
    wrong number."""
    return saved_number(state, "n_further") if "n_further" in state else 0


def require_distribution(state: Mapping[str, Any], distribution: Distribution) -> None:
    """Raise ValueError if the state's agent has other actions."""
    saved = from_plain(state["distribution"])
    if saved != distribution:
        raise ValueError(f"it has {saved}, and this run has {distribution}")


def saved_layers(settings: NetworkSettings, state: Mapping[str, Any], part: str) -> Layers:
    """Return the arrays of the "actor" or the "critic" of an ActorCritic's state.

    Raises RuntimeError if the settings describe another network.
    """
    kind, args = NETWORKS[settings.network], _network_args(settings, state, part)
    weights = {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in state["network"].items()
        if name.startswith(f"{part}.")
    }
    # The numbers of inputs and outputs are not used here: the arrays have them.
    described = kind.of_sizes(1, settings.hidden_sizes, 1, settings.activation, args)
    if described.knows(weights):
        layers = described.layers(weights)
        found = kind.of_layers(layers, settings.activation, **args)
        if found.hidden_sizes == settings.hidden_sizes and found.fits(layers):
            return layers
    raise RuntimeError("a network of another shape than its config says")


def saved_policy(settings: NetworkSettings, state: Mapping[str, Any]) -> PolicyParameters:
    """Return the actor of an ActorCritic's state.

    Raises RuntimeError if actor, critic, actions and settings do not fit together.
    """
    distribution, log_std = from_plain(state["distribution"]), state["network"].get("log_std")
    layers, is_shared = saved_layers(settings, state, "actor"), _is_shared(settings)
    parameters = PolicyParameters(
        *(layers.with_outputs(slice(-1)) if is_shared else layers),
        activation=settings.activation,
        log_std=None if log_std is None else log_std.numpy().copy(),
        distribution=distribution,
        network=settings.network,
        network_args=_network_args(settings, state, "actor"),
        masked=saved_flag(state, "masked"),
        n_further=saved_further(state),
    )
    actor, n_outputs = parameters.described(), distribution.n_outputs
    shape = None if log_std is None else tuple(log_std.shape)
    fits = actor.n_outputs == n_outputs
    fits &= shape == ((n_outputs,) if distribution.has_log_std else None)
    parts = {name.partition(".")[0] for name in state["network"]} - {"actor", "log_std"}
    if parts:
        critic = _critic(settings, state).described()
        n_inputs = actor.n_inputs + parameters.n_further
        fits &= parts == {"critic"} and not is_shared
        fits &= (critic.n_inputs, critic.n_outputs) == (n_inputs, 1)
    if not fits:
        raise RuntimeError("its networks do not fit together")
    return _normalising(parameters, state)


def saved_critic(settings: NetworkSettings, state: Mapping[str, Any]) -> PolicyParameters:
    """Return the critic of an ActorCritic's state. Its output has the unit of scaled reward."""
    return _normalising(_critic(settings, state), state)


def _critic(settings: NetworkSettings, state: Mapping[str, Any]) -> PolicyParameters:
    if _is_shared(settings):
        layers = saved_layers(settings, state, "actor").with_outputs(slice(-1, None))
    else:
        layers = saved_layers(settings, state, "critic")
    return PolicyParameters(
        *layers,
        activation=settings.activation,
        network=settings.network,
        network_args=_network_args(settings, state, "critic"),
    )


def _network_args(
    settings: NetworkSettings, state: Mapping[str, Any], part: str
) -> Mapping[str, Any]:
    args, kind = settings.network_args, NETWORKS[settings.network]
    if kind.declared:
        args = {**args, "layout": kind.layout_of(state[kind.declared]).to_plain()}
    return kind.critics_args(args, saved_further(state)) if part == "critic" else args


def _is_shared(settings: NetworkSettings) -> bool:
    return bool(getattr(settings, "shared_trunk", False))


def _normalising(parameters: PolicyParameters, state: Mapping[str, Any]) -> PolicyParameters:
    """Return a network with the statistics for normalising its observations, if any."""
    if "obs_moments" not in state:
        return parameters
    from workflow_rl.agents.ppo.running_statistics import RunningMoments

    n_inputs = parameters.described().n_inputs
    moments = RunningMoments(n_inputs + parameters.n_further)
    moments.load_state_dict(state["obs_moments"])
    mean, scale = moments.mean_and_scale()
    return parameters._replace(obs_mean=mean[:n_inputs], obs_scale=scale[:n_inputs])


def saved_team(
    settings: NetworkSettings, state: Mapping[str, Any], layout: TeamLayout, policies: PolicyMap
) -> TeamParameters:
    """Return the actors of a team's state. Raises RuntimeError if they do not fit the team."""
    from workflow_rl.agents.policies.team_policy import TeamParameters

    members = {name: saved_policy(settings, learner_state(state, name)) for name in policies}
    team = TeamParameters(layout, policies, members)
    if not team.fits():
        raise RuntimeError("a network of another team")
    return team


def policy_on(
    policy: PolicyParameters, layout: Any, distribution: Distribution
) -> PolicyParameters:
    """Return the policy for another layout and its actions, such as for other entities.

    Raises ValueError if the weights cannot play the layout: if entities have other features or
    verbs, or images have other shapes.
    """
    from workflow_rl.agents.policies.entity_layout import carried

    kind = NETWORKS[policy.network]
    layout, before = kind.known_of(layout), kind.layout_of(policy.network_args["layout"])
    before.demand_like(layout)
    args = {**policy.network_args, "layout": layout.to_plain()}
    policy = policy._replace(network_args=args, distribution=distribution)
    if policy.obs_mean is None or policy.obs_scale is None:
        return policy
    mean, scale = (
        carried(statistics, before, layout) for statistics in (policy.obs_mean, policy.obs_scale)
    )
    return policy._replace(obs_mean=mean, obs_scale=scale)


def for_layout(
    state: Mapping[str, Any], kind: type[Network], layout: Any, distribution: Distribution
) -> dict[str, Any]:
    """Return a network's `state_dict()` with the same weights for another layout, such as other
    entities.

    Raises ValueError if the weights cannot play the layout.
    """
    from workflow_rl.agents.policies.entity_layout import carried

    before = kind.layout_of(state[kind.declared])
    before.demand_like(layout)
    changed: dict[str, Any] = {"distribution": distribution.to_plain()}
    if "obs_moments" in state:
        moments = dict(state["obs_moments"])
        for name in ("mean", "variance"):
            seen, further = np.split(np.array(moments[name]), [before.n_inputs])
            moments[name] = [*carried(seen, before, layout).tolist(), *further.tolist()]
        changed["obs_moments"] = moments
    return {**state, **changed}


def learner_state(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the state of one policy's learner from a team's state."""
    # Names of policies may be "zone" and "zone/server".
    longer = tuple(f"{other}/" for other in state["learners"] if other.startswith(f"{name}/"))
    network = {
        weight.removeprefix(f"{name}/"): tensor
        for weight, tensor in state["network"].items()
        if weight.startswith(f"{name}/") and not weight.startswith(longer)
    }
    return {**state["learners"][name], "network": network}
