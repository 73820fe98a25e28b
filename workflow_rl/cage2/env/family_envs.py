"""Networks of a family as envs, and a policy of entities in networks that it never saw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.agent.network_facts import NetworkFacts
from workflow_rl.cage2.agent.views import ActionSet, View
from workflow_rl.cage2.compiled.description import family_of
from workflow_rl.cage2.compiled.simulator import CompiledEnvs
from workflow_rl.cage2.env.viewed_envs import ViewedEnvs
from workflow_rl.environments.episode import EpisodeSpec


def family_envs(
    facts: NetworkFacts, view: tuple[str, str, Sequence[str]], max_steps: int, n_envs: int
) -> ViewedEnvs:
    """Return envs of a family as Blue's policy sees them. facts: of its networks. view: see
    `Cage2.view`."""
    return ViewedEnvs(_networks(facts, max_steps, n_envs), *view, facts)


def _networks(facts: NetworkFacts, max_steps: int, n_envs: int) -> CompiledEnvs:
    return CompiledEnvs(max_steps, n_envs, tables=family_of(facts.scenarios))


def compile_for(facts: NetworkFacts, max_steps: int) -> None:
    """Compile what plays the networks, so that the workers find it on disk.

    Raises ScenarioError.
    """
    envs = _networks(facts, max_steps, 1)
    envs.reset([0], [EpisodeSpec(0, "SleepAgent", 0, 0)])
    envs.step([0], np.zeros(1, np.int64))


def on_networks(
    policy: NumpyPolicy, facts: NetworkFacts, observation: str, actions: str
) -> NumpyPolicy:
    """Return a policy of envs with this view that plays the envs of other networks, of any size.

    Raises ValueError if Blue has other kinds of actions there, or the policy knows no entities.
    """
    if "layout" not in policy.parameters.network_args:
        raise ValueError(
            "its network is made for as many hosts as it saw: train with --network entities or "
            "graph"
        )
    layout = View(observation, facts).entities(ActionSet(actions, facts).names)
    assert layout is not None
    carried = policy.parameters.on(layout, Categorical(len(layout.actions)))
    return carried.actor(policy.policy_version, policy.greedy)
