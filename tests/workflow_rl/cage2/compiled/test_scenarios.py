import copy
import time
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage2.descriptions import described
from tests.workflow_rl.cage2.lock_step import LockStep
from tests.workflow_rl.cage2.random_networks import random_scenario
from workflow_rl.cage2.agent.red_scripted import DRAWS, DrawnRed
from workflow_rl.cage2.agent.scripted import MixedAgent
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.description import SCENARIO2, family_of, tables_of
from workflow_rl.cage2.compiled.tables import CAPACITIES
from workflow_rl.cage2.red.roster import refusals
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS, ScenarioError

MIXTURES = (
    {"Sleep": 0.2, "Analyse": 0.2, "Remove": 0.2, "D": 0.1, "Misinform": 0.15, "Restore": 0.15},
    {"D": 0.4, "Misinform": 0.4, "Restore": 0.2},
)


def compare(
    scenario: Scenario, seed: int, max_steps: int = 100, reds: tuple[str, ...] = RED_AGENTS
) -> int:
    """Play one episode of each red agent that can, and return their number."""
    lock_step = LockStep(max_steps=max_steps, networks=True, scenario=scenario)
    weights, names = MIXTURES[seed % 2], scenario.action_names
    possible = {kind: w for kind, w in weights.items() if any(n.startswith(kind) for n in names)}
    whole = sum(possible.values())
    blue = MixedAgent({kind: weight / whole for kind, weight in possible.items()}, scenario)
    able = [red for red in reds if refusals(scenario).get(red) is None]
    for red in able:
        n_actions = len(scenario.red_action_names)
        drawn = DrawnRed(DRAWS[red], n_actions) if red in DRAWS else red
        difference = lock_step.play(blue, drawn, seed)
        assert difference is None, f"{scenario.name}: {difference}"
    return len(able)


@pytest.mark.system
@pytest.mark.parametrize("number", range(4))
def test_random_networks_of_scenario2s_capacity_play_as_in_cyborg(number: int) -> None:
    seed = int(time.time()) + 1000 * number
    for attempt in range(seed, seed + 1000):
        scenario = random_scenario(attempt, 3 + attempt % 11)
        if tables_of(scenario).capacity == CAPACITIES[0]:
            assert compare(scenario, attempt) > 0
            return


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_networks_of_3_to_64_hosts_play_as_in_cyborg(number: int) -> None:
    seed = int(time.time()) + 1000 * number
    scenario = random_scenario(seed, 3 + seed % 62)
    compare(scenario, seed, 100, (*RED_AGENTS, *DRAWS))
    compare(scenario, seed + 1, 30, (*RED_AGENTS, *DRAWS))


def changed(change: Any) -> Scenario:
    description = Scenario.scenario2().description()
    change(description)
    return described(description)


def misinform(description: dict[str, Any]) -> None:
    """As in CAGE Challenge 1."""
    description["Agents"]["Blue"]["actions"] = [
        *("Sleep", "Monitor", "Analyse", "Remove", "Misinform", "Restore")
    ]


def busy(description: dict[str, Any]) -> None:
    process = copy.deepcopy(description["Hosts"]["User1"]["Processes"][0])
    process["Connections"] = [
        {"local_address": "0.0.0.0", "local_port": port} for port in range(5000, 5008)
    ]
    description["Hosts"]["User1"]["Processes"].append(process)


def two_addresses(description: dict[str, Any]) -> None:
    connections = description["Hosts"]["User1"]["Processes"][0]["Connections"]
    connections[0]["local_address"] = "10.0.3.4"


def root_on_windows(description: dict[str, Any]) -> None:
    description["Hosts"]["User1"]["Processes"][1]["Username"] = "root"


def another_service(description: dict[str, Any]) -> None:
    description["Hosts"]["Op_Server0"]["Services"]["other"] = {"active": True, "PID": 1091}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (busy, r"^Hosts\.User1\.Processes: at most 7 ports"),
        (two_addresses, r"^Hosts: processes listen on more than one address"),
        (root_on_windows, r"^Hosts\.User1\.Processes\.femitter\.exe\.Username: root on a host"),
        (another_service, r"^Hosts\.Op_Server0\.Services: only an active OTService"),
    ],
)
def test_what_csle_cyborg_alone_plays_is_refused(change: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as refused:
        tables_of(changed(change))
    assert "\n" not in str(refused.value)
    assert "the simulator cyborg" in str(refused.value)


def smaller(*names: str) -> Scenario:
    scenario = Scenario.scenario2()
    for name in names:
        scenario = scenario.remove_host(name)
    return scenario


def test_a_family_plays_each_network_as_it_plays_alone() -> None:
    family = family_of([Scenario.scenario2(), smaller("User4"), smaller("User3", "Op_Host2")])
    simulator, draws = BatchedSimulator(6, tables=family), np.random.default_rng(0)
    order = np.array([2, 0, 1, 1, 2, 0])
    kinds, hosts = SCENARIO2.of["action_kind"], SCENARIO2.of["action_host"]
    for seed in (5, 6):
        simulator.reset(seed, [0, 1, 0, 1, 1, 0], scenarios=order)
        alone = [BatchedSimulator(1, tables=tables_of(family[n].scenario)) for n in order]
        for env, single in enumerate(alone):
            single.reset(seed, [0, 1, 0, 1, 1, 0][env])
        for _ in range(60):
            actions = draws.integers(len(kinds), size=6)
            simulator.step(actions)
            for env, single in enumerate(alone):
                of, n = single.tables.of, len(single.tables.hosts)
                same = (of["action_kind"] == kinds[actions[env]]) & (
                    of["action_host"] == hosts[actions[env]]
                )
                # Where there is no such host, the action does what Sleep does.
                obs, rewards = single.step(int(same.argmax()) if same.any() else 0)
                assert np.array_equal(simulator.obs[env, : 4 * n], obs[0])
                assert not simulator.obs[env, 4 * n :].any()
                assert simulator.rewards[env] == rewards[0]
        order = order[::-1]


def test_a_family_has_the_same_kinds_of_actions() -> None:
    with pytest.raises(ScenarioError, match="differ within a family"):
        family_of([Scenario.scenario2(), changed(misinform)])
