"""The hosts of CAGE-2 as entities: which bits describe each host, and what is done to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.cage2.agent.action_sets import ActionSet
from workflow_rl.cage2.agent.network_facts import NetworkFacts, joined_hosts
from workflow_rl.cage2.agent.views import BELIEVING, View, columns_per_host
from workflow_rl.cage2.scenario2 import HOSTS


def hosts_as_entities(facts: NetworkFacts, observation: str, actions: str) -> EntityLayout | None:
    """Return the layout of what a policy sees and chooses from.

    Policies that are told no facts have a trait for each host, which tells the hosts apart. None
    where hosts are not described alike: in the true state, and in a belief in other networks than
    Scenario 2.
    """
    has_belief = observation in BELIEVING
    if observation == "true-state" or (has_belief and facts.are_told):
        return None
    view, n = View(observation, facts), facts.n_hosts
    verbs = _verbs_of(ActionSet(actions, facts).names, facts.host_names)
    tables: dict[str, Any] = {"actions": verbs}
    per_host = 4 if has_belief else columns_per_host(observation, facts)
    columns = np.arange(n * per_host).reshape(n, per_host)
    if facts.are_told:
        # The first fact tells that a host exists.
        tables |= {"present": columns[:, 4], "features": np.delete(columns, 4, axis=1)}
    else:
        beliefs = [_belief_of_hosts()] if has_belief else []
        tables |= {"features": np.concatenate([columns, *beliefs], axis=1), "traits": np.eye(n)}
    if facts.tells_edges:
        first = view.n_shown - 2 * n**2
        of_subnet, leads = first + np.arange(2 * n**2).reshape(2, n, n)
        edges = {"subnet": of_subnet, "leads to": leads, "led to": leads.T}
        tables["edges"] = {name: _pairs(of_pairs) for name, of_pairs in edges.items()}
    elif len(facts.scenarios) == 1:
        joined = joined_hosts(facts.scenarios[0])
        tables["edges"] = {name: np.argwhere(pairs) for name, pairs in joined.items()}
    return EntityLayout(view.n_shown, tables)


def _verbs_of(actions: Sequence[str], hosts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the verb and the host of each action, or the number of an action on no host and -1."""
    numbers: dict[bool, dict[str, int]] = {True: {}, False: {}}
    verbs = []
    for action in actions:
        verb, _, host = action.partition(" ")
        of_verb = numbers[bool(host)]
        number = of_verb.setdefault(verb, len(of_verb))
        verbs.append((number, hosts.index(host) if host else -1))
    return verbs


def _belief_of_hosts() -> NDArray[np.int64]:
    """Return the columns of the belief about each host of Scenario 2."""
    from workflow_rl.cage2.compiled import blue_belief, tables

    columns = blue_belief.columns_shown(len(blue_belief.WORTH_A_DECOY))
    decoys = np.full((len(HOSTS), tables.N_DECOYS, 2), -1)
    decoys[*blue_belief.WORTH_A_DECOY.T] = columns["decoys"]
    probable = np.full((len(HOSTS), columns["of hosts"].shape[1]), -1)
    probable[blue_belief.CONTESTED] = columns["of hosts"]
    return np.concatenate([decoys.reshape(len(HOSTS), -1), columns["masks"].T, probable], axis=1)


def _pairs(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of a host, another one or the same, and the number at their place in a table."""
    host, other = np.indices(columns.shape)
    return np.stack([host, other, columns], axis=2).reshape(-1, 3)
