"""Networks of a family as envs whose hosts are entities: one policy plays networks of any size.

What Blue sees of a host are its four bits and facts about it that the network decides, such as its
worth and what Red can attack on it. No bit tells which host it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Categorical, Choice
from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage.network_batch import mask_of
from workflow_rl.cage2.attack_graph import EXPLOITS
from workflow_rl.cage2.env.entities import verbs_of
from workflow_rl.cage2.red_plans import GOAL
from workflow_rl.cage2.scenario import WITHOUT_HOST, Scenario
from workflow_rl.environments.env_batch import StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

WORTHS = ("None", "Low", "Medium", "High")
N_FACTS = 1 + len(WORTHS) + 1 + len(WORTHS) + 1 + len(EXPLOITS) + 4
"""Bits about a host that never change in a network. The first tells that the host exists."""
N_BITS = 4 + N_FACTS


def facts_of(scenario: Scenario) -> NDArray[np.uint8]:
    """Return the facts about each host, `[H, N_FACTS]`: whether it exists, its confidentiality,
    whether it has an OT service and what that is worth, whether it runs Windows, what Red can
    exploit, and whether it is Red's own, beside it, behind a closed door, and leads to the goal."""
    described = scenario.description()
    tables = scenario.tables().of
    home = next(name for name, hosts in scenario.subnets.items() if scenario.red_host in hosts)
    subnet_of = {host: name for name, hosts in scenario.subnets.items() for host in hosts}
    rows = []
    for number, (host, facts) in enumerate(described["Hosts"].items()):
        has_ot = host in scenario.ot_hosts
        available = facts.get("AvailabilityValue", "Low") if has_ot else None
        rule = described["Subnets"][subnet_of[host]]["NACLs"].get(home, {"in": "all"})
        rows.append(
            [
                True,
                *(worth == facts.get("ConfidentialityValue", "Low") for worth in WORTHS),
                has_ot,
                *(worth == available for worth in WORTHS),
                facts["System info"]["OSType"].lower() == "windows",
                *(tables["vulnerability"][number] > 0),
                host == scenario.red_host,
                subnet_of[host] == home,
                rule["in"] == "None",
                GOAL in facts.get("info", {}),
            ]
        )
    return np.array(rows, np.uint8)


def layout_of_hosts(n_hosts: int, kinds: Sequence[str]) -> EntityLayout:
    """Return the layout of `n_hosts` hosts. kinds: of Blue's actions, in their order."""
    columns = np.arange(N_BITS * n_hosts).reshape(n_hosts, N_BITS)
    hosts = [f"host{number}" for number in range(n_hosts)]
    named = [
        name
        for kind in kinds
        for name in ((kind,) if kind in WITHOUT_HOST else (f"{kind} {host}" for host in hosts))
    ]
    # The bit that tells that a host exists comes first of its facts.
    features = np.delete(columns, 4, axis=1)
    tables = {"features": features, "actions": verbs_of(named, hosts), "present": columns[:, 4]}
    return EntityLayout(columns.size, tables)


class Shown:
    """What Blue sees and can do in some scenarios with the same kinds of actions.

    n_hosts: H, of the largest. kinds: of Blue's actions.
    """

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self.n_hosts = n = max(len(scenario.hosts) for scenario in scenarios)
        self.kinds = tuple(dict.fromkeys(a.partition(" ")[0] for a in scenarios[0].action_names))
        self._facts = np.zeros((len(scenarios), n, N_FACTS), np.uint8)
        for number, scenario in enumerate(scenarios):
            self._facts[number, : len(scenario.hosts)] = facts_of(scenario)
        exists = self._facts[:, :, 0]
        self._masks = np.concatenate(
            [
                exists if kind not in WITHOUT_HOST else np.ones((len(scenarios), 1), np.uint8)
                for kind in self.kinds
            ],
            axis=1,
        )

    @functools.cached_property
    def layout(self) -> EntityLayout:
        """The hosts as entities."""
        return layout_of_hosts(self.n_hosts, self.kinds)

    @property
    def n_actions(self) -> int:
        """The number of actions in the largest scenario."""
        return self._masks.shape[1]

    def rows(self, obs: NDArray[Any], scenarios: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return what Blue sees, `[M, H * N_BITS + actions]`, with masks of the actions.

        obs: bits, `[M, 4 H]` or those of the fewer hosts there are. scenarios: the number of each.
        """
        seen = np.zeros((len(obs), self.n_hosts, N_BITS), np.uint8)
        seen[:, : obs.shape[1] // 4, :4] = obs.reshape(len(obs), -1, 4)
        seen[:, :, 4:] = self._facts[scenarios]
        return np.concatenate([seen.reshape(len(obs), -1), self._masks[scenarios]], axis=1)


class FamilyEnvs:
    """`n_envs` compiled networks, of which each episode plays one by its seed. An EnvBatch."""

    def __init__(self, scenarios: Sequence[Scenario], max_steps: int, n_envs: int) -> None:
        from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
        from workflow_rl.cage2.compiled.description import family_of

        self.n_envs = n_envs
        self._n_scenarios, self._max_steps = len(scenarios), max_steps
        self._shown = Shown(scenarios)
        self._simulator = BatchedSimulator(n_envs, max_steps, tables=family_of(scenarios))
        self._scenarios, self._steps_left = np.zeros((2, n_envs), np.int64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        """Begin an episode in each of M envs. Return rows: see `Shown.rows`."""
        chosen = mask_of(envs, self.n_envs)
        seeds, red_agents = np.zeros((2, self.n_envs), np.int64)
        seeds[envs] = [spec.env_seed for spec in specs]
        red_agents[envs] = [self._simulator.red_agents.index(spec.variant) for spec in specs]
        self._scenarios[envs] = seeds[envs] % self._n_scenarios
        self._simulator.reset(seeds, red_agents, chosen, self._scenarios)
        self._steps_left[envs] = self._max_steps
        return self._shown.rows(self._simulator.obs[envs], self._scenarios[envs])

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once."""
        rows = np.asarray(envs)
        all_actions = np.zeros(self.n_envs, np.int64)
        all_actions[rows] = actions
        obs, rewards = self._simulator.step(all_actions, mask_of(rows, self.n_envs))
        self._steps_left[rows] -= 1
        truncated = self._steps_left[rows] == 0
        seen = self._shown.rows(obs[rows], self._scenarios[rows])
        return StepAnswers(seen, rewards[rows], np.zeros_like(truncated), truncated)

    def close(self) -> None:
        """Nothing is held."""


def compile_for(scenarios: Sequence[Scenario], max_steps: int) -> None:
    """Compile what plays the scenarios, so that the workers find it on disk.

    Raises ScenarioError.
    """
    envs = FamilyEnvs(scenarios, max_steps, 1)
    envs.reset([0], [EpisodeSpec(0, "SleepAgent", 0, 0)])
    envs.step([0], np.zeros(1, np.int64))


def on_scenarios(policy: NumpyPolicy, scenarios: Sequence[Scenario]) -> NumpyPolicy:
    """Return a policy of `FamilyEnvs` that plays the envs of other scenarios, of any size.

    Raises ValueError if Blue has other kinds of actions there, or the policy knows no entities.
    """
    shown = Shown(scenarios)
    if "layout" not in policy.parameters.network_args:
        raise ValueError(
            "its network is made for as many hosts as it saw: train with --network entities"
        )
    carried = policy.parameters.on(shown.layout, Categorical(shown.n_actions))
    return carried.actor(policy.policy_version, policy.greedy)


class ScenarioActor:
    """A policy of `FamilyEnvs` that plays one scenario from the bits alone."""

    def __init__(self, policy: NumpyPolicy, scenario: Scenario) -> None:
        self._actor = on_scenarios(policy, [scenario])
        self._shown = Shown([scenario])
        self.policy_version = policy.policy_version

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin or continue an episode: see Actor."""
        self._actor.reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions for obs [M, 4 H], and their log-probabilities."""
        rows = self._shown.rows(np.atleast_2d(obs), np.zeros(len(envs), np.int64))
        return self._actor.act(rows, envs)
