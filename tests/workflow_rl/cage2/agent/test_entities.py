"""The hosts as entities: the tables name the bits and the actions of the right host."""

import numpy as np
import pytest

from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS
from workflow_rl.environments.episode import EpisodeSpec


@pytest.mark.parametrize("actions", ["all", "by-host"])
def test_every_action_is_a_verb_on_its_host(actions: str) -> None:
    layout = Cage2(actions=actions).spaces().entities
    assert len(layout.actions) == Cage2(actions=actions).spaces().distribution.n_outputs
    assert len(np.unique(layout.places)) == len(layout.actions)
    if actions == "all":
        analyse, restore = (
            layout.actions[ACTION_NAMES.index(f"{verb} Op_Server0")]
            for verb in ("Analyse", "Restore")
        )
        assert analyse[1] == restore[1] == HOSTS.index("Op_Server0")
        assert analyse[0] != restore[0]
        assert layout.actions[:2].tolist() == [[0, -1], [1, -1]]  # Sleep and Monitor.


def test_the_belief_about_a_host_is_described_with_the_host() -> None:
    layout = Cage2(observation="belief").spaces().entities
    columns = layout.features[layout.features >= 0]
    assert len(np.unique(columns)) == len(columns)
    assert sorted([*columns, *layout.whole]) == list(range(layout.n_inputs))
    envs = Cage2(simulator="compiled", observation="belief", actions="all").make_envs(1)
    before = envs.reset([0], [EpisodeSpec(0, "B_lineAgent", 5, 0)])[0]
    host = HOSTS.index("Enterprise1")
    action = np.array([ACTION_NAMES.index("DecoyFemitter Enterprise1")])
    after = envs.step([0], action).obs[0]
    decoys = layout.features[:, 4 : 4 + 16 : 2]  # By host: a bit for each decoy that is in place.
    changed = (before[decoys] != after[decoys]) & (decoys >= 0)
    assert changed.sum() == changed[host].sum() == 1


def test_hosts_are_joined_by_their_subnets_and_by_what_leads_red_on() -> None:
    layout = Cage2().spaces().entities
    named = {
        name: {(HOSTS[host], HOSTS[other]) for host, other, column in edges if column < 0}
        for name, edges in layout.edges.items()
    }
    assert len(named["subnet"]) == 4**2 + 4**2 + 5**2
    assert ("Defender", "Enterprise2") in named["subnet"]
    assert ("User1", "Enterprise1") in named["leads to"]
    assert ("Enterprise2", "Op_Server0") in named["leads to"]
    assert named["led to"] == {(other, host) for host, other in named["leads to"]}
    assert len(layout.telling) == 0
