"""Networks of a family as envs, and a policy of entities in networks that it never saw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.agent.network_facts import ACTIONS, NetworkFacts, layout_of_hosts
from workflow_rl.cage2.compiled.description import family_of
from workflow_rl.cage2.compiled.simulator import CompiledEnvs
from workflow_rl.cage2.env.viewed_envs import ViewedEnvs
from workflow_rl.environments.episode import EpisodeSpec


def family_envs(
    known: NetworkFacts, view: tuple[str, str, Sequence[str]], max_steps: int, n_envs: int
) -> ViewedEnvs:
    """Return envs of a family as Blue's policy sees them. known: its scenarios. view: see
    `Cage2.view`."""
    return ViewedEnvs(_networks(known, max_steps, n_envs), *view, known=known)


def _networks(known: NetworkFacts, max_steps: int, n_envs: int) -> CompiledEnvs:
    return CompiledEnvs(max_steps, n_envs, tables=family_of(known.scenarios))


def compile_for(known: NetworkFacts, max_steps: int) -> None:
    """Compile what plays the networks, so that the workers find it on disk.

    Raises ScenarioError.
    """
    envs = _networks(known, max_steps, 1)
    envs.reset([0], [EpisodeSpec(0, "SleepAgent", 0, 0)])
    envs.step([0], np.zeros(1, np.int64))


def on_networks(
    policy: NumpyPolicy, known: NetworkFacts, observation: str, actions: str
) -> NumpyPolicy:
    """Return a policy of envs with this view that plays the envs of known networks, of any size.

    Raises ValueError if Blue has other kinds of actions there, or the policy knows no entities.
    """
    if "layout" not in policy.parameters.network_args:
        raise ValueError(
            "its network is made for as many hosts as it saw: train with --network entities or "
            "graph"
        )
    layout = layout_of_hosts(known, observation, actions)
    carried = policy.parameters.on(layout, Categorical(ACTIONS[actions](known).n))
    return carried.actor(policy.policy_version, policy.greedy)
