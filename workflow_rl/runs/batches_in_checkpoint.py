"""The batches that are being collected, as a checkpoint keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.numpy_policy import Parameters, PolicyParameters
from workflow_rl.agents.policy_from_checkpoint import saved_flag, saved_further
from workflow_rl.collection.schedule import BegunBatch, Share

if TYPE_CHECKING:
    from workflow_rl.agents.policies.team_policy import TeamParameters


def plain_batch(batch: BegunBatch) -> dict[str, Any]:
    """Return tensors and plain values."""
    return {
        **_plain_parameters(batch.policy.parameters),
        "policy_version": batch.policy.policy_version,
        "share": None if batch.share is None else list(batch.share),
    }


def _plain_parameters(parameters: Parameters) -> dict[str, Any]:
    if not isinstance(parameters, PolicyParameters):
        team: TeamParameters = parameters  # type: ignore[assignment]
        return {
            "team": team.layout.to_plain(),
            "agents_of": {name: list(of) for name, of in team.policies.items()},
            "members": {name: _plain_parameters(of) for name, of in team.parameters.items()},
        }
    arrays = {"log_std": parameters.log_std}
    arrays |= {"obs_mean": parameters.obs_mean, "obs_scale": parameters.obs_scale}
    return {
        "weights": [torch.from_numpy(weight) for weight in parameters.weights],
        "biases": [torch.from_numpy(bias) for bias in parameters.biases],
        "activation": parameters.activation,
        "network": parameters.network,
        "network_args": dict(parameters.network_args),
        "masked": parameters.masked,
        "n_further": parameters.n_further,
        **{name: torch.from_numpy(a) for name, a in arrays.items() if a is not None},
    }


def begun_batch(values: dict[str, Any], distribution: Distribution | None) -> BegunBatch:
    """Return the batch that `plain_batch` gave. distribution: of the run's actions.

    Raises LookupError, TypeError, AttributeError or ValueError for what never was a batch.
    """
    share = values["share"]
    policy = _parameters(values, distribution).actor(values["policy_version"])
    return BegunBatch(policy, share and Share._make(share))


def _parameters(values: dict[str, Any], distribution: Distribution | None) -> Parameters:
    if "team" in values:
        from workflow_rl.agents.policies.team_policy import TeamParameters
        from workflow_rl.agents.team import team_layout

        layout = team_layout(values["team"])
        agents_of = {name: tuple(of) for name, of in values["agents_of"].items()}
        members = {
            name: _of_one_policy(member, layout.distribution(agents_of[name][0]))
            for name, member in values["members"].items()
        }
        return TeamParameters(layout, agents_of, members)
    return _of_one_policy(values, distribution)


def _of_one_policy(values: dict[str, Any], distribution: Distribution | None) -> PolicyParameters:
    optional = ("log_std", "obs_mean", "obs_scale")
    return PolicyParameters(
        tuple(weight.numpy() for weight in values["weights"]),
        tuple(bias.numpy() for bias in values["biases"]),
        values["activation"],
        **{name: values[name].numpy() for name in optional if name in values},
        distribution=distribution,
        network=values["network"],
        network_args={**values["network_args"]},
        masked=saved_flag(values, "masked"),
        n_further=saved_further(values),
    )
