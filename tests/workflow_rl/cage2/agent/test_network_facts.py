"""What Blue sees of any network, and chooses from: alike on both simulators, and by host."""

import numpy as np

from tests.workflow_rl.cage2.actors import Sleeping
from tests.workflow_rl.cage2.agent.test_views import policy_for
from workflow_rl.cage2.agent.history_counts import N_OF_HOST
from workflow_rl.cage2.agent.network_facts import (
    DEPTHS,
    FACTS,
    NetworkFacts,
    facts_of,
    untold_facts,
)
from workflow_rl.cage2.agent.views import ActionSet, View
from workflow_rl.cage2.attack_graph import attack_graph
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.actions import BY_HOST
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import CONTESTED
from workflow_rl.environments.episode import EpisodeSpec

N_BITS = 4 + len(FACTS)
FAMILY = ScenarioFamily.from_ranges(
    {"networks": 3, "hosts": {"User": [3, 7], "Operational": [2, 5]}, "links": [1, 2]}
)


def test_a_host_is_as_far_from_red_as_the_shortest_way():
    scenario = Scenario.scenario2()
    ways = {"User1": ["Enterprise0"], "User2": ["Op_Host1"], "User3": [], "User4": []}
    ways |= {"Enterprise0": ["Enterprise1"], "Enterprise1": ["Enterprise2"]}
    ways |= {"Enterprise2": ["Op_Host0"], "Op_Host1": ["Op_Host0"]}
    for host, others in ways.items():
        scenario = scenario.change_host(host, leads_to=others)
    at_least = facts_of(scenario, attack_graph(scenario))[:, -len(DEPTHS) :].sum(axis=1)
    distance = dict(zip(scenario.hosts, at_least.tolist(), strict=True))
    assert [distance[name] for name in ("User0", "User2", "Op_Host1", "Op_Host0")] == [0, 1, 2, 3]
    assert [distance[f"Enterprise{n}"] for n in range(3)] == [2, 3, 4]


def test_a_policy_without_entities_sees_the_facts_of_the_network_that_it_plays():
    known = Scenario.scenario2()
    other = known.change_host("User1", confidentiality="High")
    environment = Cage2(observation="history", actions="by-host")
    played = environment.actor_on_observations(policy_for(environment), other)
    played.actor = watched = Sleeping()
    played.act(np.zeros((1, 52), np.uint8))
    seen = watched.seen[0][: 13 * (N_BITS + N_OF_HOST)].reshape(13, -1)[:, 4:N_BITS]
    np.testing.assert_array_equal(seen, facts_of(other, attack_graph(other)))
    assert (seen != facts_of(known, attack_graph(known))).any()


def test_an_episode_of_a_family_shows_what_its_scenario_shows():
    view = {"observation": "history", "actions": "by-host"}
    family = Cage2("SleepAgent", simulator="compiled", scenario=FAMILY.text, **view)
    envs = family.make_envs(3)
    rows = envs.reset(range(3), [EpisodeSpec(i, "SleepAgent", i, 0) for i in range(3)])
    per_host = N_BITS + N_OF_HOST
    for number, scenario in enumerate(FAMILY.drawn(range(3))):
        facts, size = NetworkFacts([scenario]), len(scenario.hosts)
        alone = View("history", facts).begin([0], np.zeros((1, 4 * size), np.uint8))[0]
        hosts = rows[number, : family.facts.n_hosts * per_host].reshape(-1, per_host)
        np.testing.assert_array_equal(hosts[:size].ravel(), alone[: size * per_host])
        assert not hosts[size:, 4:N_BITS].any()


def test_misinform_is_the_next_decoy_where_blue_has_no_other():
    kinds = ("Sleep", "Monitor", "Analyse", "Misinform", "Restore")
    scenario = Scenario.scenario2().let_blue(kinds)
    actions = ActionSet("by-host", NetworkFacts([scenario]))
    actions.begin([0])
    host = scenario.hosts.index("Enterprise0")
    choice = np.array([1 + BY_HOST.index("NextDecoy") * len(scenario.hosts) + host])
    n_set_up = 0
    while actions.with_masks(np.zeros((1, 0), np.uint8), [0])[0, choice[0]]:
        action = actions.chosen([0], choice)
        assert scenario.action_names[action[0]] == "Misinform Enterprise0"
        actions.after([0], action)
        n_set_up += 1
    assert 1 <= n_set_up <= 5
    # Remove is none of Blue's actions.
    first, n = 1 + BY_HOST.index("Remove") * len(scenario.hosts), len(scenario.hosts)
    assert not actions.with_masks(np.zeros((1, 0), np.uint8), [0])[0, first : first + n].any()


def test_red_takes_and_blue_frees_the_hosts_for_which_policies_are_stored():
    facts = untold_facts(Scenario.scenario2())
    assert tuple(np.array(facts.host_names)[facts.contested[0]]) == CONTESTED
