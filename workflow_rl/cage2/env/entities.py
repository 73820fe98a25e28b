"""The hosts of CAGE-2 as entities: which bits describe each host, and what is done to each."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.cage2.actions import NEXT_DECOY
from workflow_rl.cage2.agent.action_sets import make_action_set, verbs_of
from workflow_rl.cage2.agent.network_facts import joined_hosts
from workflow_rl.cage2.env.viewed_envs import view_size
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS


@functools.cache
def hosts_as_entities(observation: str, actions: str) -> EntityLayout | None:
    """Return the layout of what a policy sees and chooses from; None for the true state, in which
    hosts are not described alike. A trait for each host tells the hosts apart."""
    if observation == "true-state":
        return None
    bits = np.arange(4 * len(HOSTS)).reshape(len(HOSTS), 4)
    if observation != "table":
        bits = np.concatenate([bits, _belief_of_hosts()], axis=1)
    chosen = [
        # Numbers below 0 stand for the next decoy on a host.
        ACTION_NAMES[action] if action >= 0 else f"{NEXT_DECOY} {HOSTS[-1 - action]}"
        for action in make_action_set(actions).actions.tolist()
    ]
    return _layout(view_size(observation), bits, chosen, Scenario.scenario2())


def table_as_entities(scenario: Scenario) -> EntityLayout:
    """Return the layout of the four bits of each host, and of actions on hosts."""
    bits = np.arange(scenario.obs_size).reshape(-1, 4)
    return _layout(bits.size, bits, scenario.action_names, scenario)


def _layout(
    size: int, features: NDArray[np.int64], actions: Sequence[str], scenario: Scenario
) -> EntityLayout:
    tables = {
        "features": features,
        "actions": verbs_of(actions, scenario.hosts),
        "traits": np.eye(len(scenario.hosts)),
        "edges": {name: np.argwhere(joined) for name, joined in joined_hosts(scenario).items()},
    }
    return EntityLayout(size, tables)


def _belief_of_hosts() -> NDArray[np.int64]:
    """Return the columns of the belief about each host: see `blue_belief.show_belief`."""
    from workflow_rl.cage2.compiled import blue_belief, tables

    columns = blue_belief.columns_shown(len(blue_belief.WORTH_A_DECOY))
    decoys = np.full((len(HOSTS), tables.N_DECOYS, 2), -1)
    decoys[*blue_belief.WORTH_A_DECOY.T] = columns["decoys"]
    probable = np.full((len(HOSTS), columns["of hosts"].shape[1]), -1)
    probable[blue_belief.CONTESTED] = columns["of hosts"]
    return np.concatenate([decoys.reshape(len(HOSTS), -1), columns["masks"].T, probable], axis=1)
