import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.costs import COSTS, EVALUATED, LEVELS
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    AGENTS,
    HOST_NAMES,
    RED_AGENTS,
    SLEEP_ACTIONS,
    VARIANTS,
    ZONES,
    Scenario,
)
from workflow_rl.cage4.scoring.measures import BLUE_MEASURES
from workflow_rl.cage4.scoring.scoring import Cage4Scoring, ProtocolSettings
from workflow_rl.environments.episode import episode_spec
from workflow_rl.evaluation.measures import Ratio, Times, readings_in

QUIET = Scenario(phishing_rate=0, false_alert_rate=0)


def named(costs: Any) -> dict[str, float]:
    return dict(zip(EVALUATED, costs.tolist(), strict=True))


def played(simulator: Any, team_name: str, seed: int) -> Iterator[tuple[list[int], Any]]:
    """Play an episode. Yield the actions and the costs of each step."""
    team = make_scripted_team(team_name)
    observations = simulator.reset(seed)
    team.reset(simulator.masks, seed)
    done = False
    while not done:
        actions, messages = team.act_in(simulator, observations)
        result = simulator.step(actions, messages)
        observations, done = result.observations, result.done
        yield list(actions), simulator.costs.copy()


@pytest.mark.parametrize(
    ("name", "n_steps"),
    [("cyborg", 120), ("published", 40), pytest.param("published", 500, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("team_name", ["random", "rules", "restore-when-seen"])
def test_every_simulator_counts_the_same_costs(checkout, name, n_steps, team_name):
    """That of CybORG's objects is other code than that of the compiled simulator."""
    made = [
        make_simulator(one, RED_AGENTS[0], n_steps, measures=True) for one in ("compiled", name)
    ]
    for ours, theirs in zip(*(played(one, team_name, 8) for one in made), strict=True):
        assert ours[0] == theirs[0]
        assert named(ours[1]) == named(theirs[1])


def action(agent: int, kind: str, host: str = "", to: str = "", source: str = "") -> list[int]:
    """Return a joint action in which one agent acts."""
    actions = list(SLEEP_ACTIONS)
    wanted = (kind, host, to, source)
    actions[agent] = next(i for i, one in enumerate(ACTIONS[agent]) if tuple(one) == wanted)
    return actions


def counted(simulator: CompiledSimulator, actions: list[int]) -> dict[str, float]:
    """Play a step. Return the costs that are not 0, without the numbers of hosts and greens."""
    simulator.step(actions)
    costs = named(simulator.costs)
    return {n: v for n, v in costs.items() if v and n not in ("clean_hosts", "green_work")}


def test_a_restore_on_a_healthy_host_by_hand():
    """It takes five steps, and is charged again when it is handed in again."""
    simulator = CompiledSimulator("SleepAgent", 100, QUIET, measures=True)
    simulator.reset(1)
    assert not simulator.costs.any()
    restore = action(0, "Restore", f"{ZONES[0]}_server_host_0")
    under_way = {"restore_steps": 1, "downtime": 1}
    assert counted(simulator, restore) == {**under_way, "action_cost": 1}
    assert counted(simulator, restore) == {**under_way, "action_cost": 1}
    assert counted(simulator, list(SLEEP_ACTIONS)) == under_way
    assert counted(simulator, list(SLEEP_ACTIONS)) == under_way
    done = {**under_way, "restores": 1, "healthy_recoveries": 1}
    assert counted(simulator, list(SLEEP_ACTIONS)) == done
    assert counted(simulator, list(SLEEP_ACTIONS)) == {}


def test_removes_decoys_and_analyses_count_when_they_take_effect():
    simulator = CompiledSimulator("SleepAgent", 100, QUIET, measures=True)
    simulator.reset(1)
    host = f"{ZONES[0]}_server_host_0"
    taken = []
    for kind, n_steps in (("Remove", 3), ("DeployDecoy", 2), ("Analyse", 2)):
        taken += [counted(simulator, action(0, kind, host)) for _ in range(n_steps)]
    removed = {"removes": 1, "healthy_recoveries": 1}
    assert taken == [{}, {}, removed, {}, {"decoys": 1}, {}, {"analyses": 1}]


def test_blocks_by_hand():
    """Greens of both zones cannot reach the other zone. A second Block changes nothing."""
    simulator = CompiledSimulator("SleepAgent", 100, QUIET, measures=True)
    simulator.reset(1)
    pair = ZONES[0], ZONES[4]
    block, allow = (action(0, f"{do}TrafficZone", "", *pair) for do in ("Block", "Allow"))
    failed, n_steps = 0.0, 40
    for _ in range(n_steps):
        costs = counted(simulator, block)
        failed += costs.get("blue_failures", 0)
        assert costs["blocks"] == costs["blocked_pairs"] == 1
        assert costs.get("downtime") == costs.get("blue_failures") == costs.get("green_failures")
        assert "red_failures" not in costs
    assert failed > 0
    assert counted(simulator, allow) == {}


def test_a_host_that_red_holds_by_hand():
    """Phishing opens a user's session on a host. Remove does not end it, but Restore does."""
    simulator = CompiledSimulator(RED_AGENTS[0], 100, VARIANTS["more-phishing"], measures=True)
    simulator.reset(2)
    zone, agent = ZONES[0], 0
    hosts = [f"level {host}" for host in HOST_NAMES if host.startswith(zone)]
    costs = named(simulator.costs)
    while not any(costs[host] for host in hosts):
        assert costs["counter_actions"] == 0
        simulator.step(SLEEP_ACTIONS)
        costs = named(simulator.costs)
    assert costs["red_present"] == 1
    taken = next(host for host in hosts if costs[host]).removeprefix("level ")
    remove, restore = (action(agent, kind, taken) for kind in ("Remove", "Restore"))
    steps = [counted(simulator, remove) for _ in range(3)]
    assert [costs.get("counter_actions", 0) for costs in steps] == [0, 0, 1]
    assert steps[-1][f"level {taken}"] >= 1
    steps = [counted(simulator, restore) for _ in range(5)]
    assert [costs.get("counter_actions", 0) for costs in steps] == [0, 0, 0, 0, 1]
    assert "healthy_recoveries" not in steps[-1]


def test_hosts_that_count_are_all_but_routers_the_internets_and_reds_first():
    simulator = CompiledSimulator(RED_AGENTS[0], 60, Scenario(users=4, servers=2), measures=True)
    most = 0.0
    for _, costs in played(simulator, "sleep", 4):
        by_name = named(costs)
        levels = [by_name[name] for name in LEVELS]
        counts = [by_name[name] for name in ("clean_hosts", "user_hosts", "root_hosts")]
        assert sum(counts) == 8 * (4 + 2) - 1
        assert counts[1:] == [levels.count(1), levels.count(2)]
        assert not any(by_name[name] for name in LEVELS if "router" in name or "internet" in name)
        most = max(most, counts[1] + counts[2])
    assert most > 3


def test_training_has_costs_and_the_same_episodes():
    plain, measured = (Cage4(max_steps=40, measures=on) for on in (False, True))
    assert (plain.spaces().costs, measured.spaces().costs) == ((), COSTS)
    assert measured.spaces()._replace(costs=()) == plain.spaces()
    made = [one.make_envs(3) for one in (plain, measured)]
    specs = [episode_spec(0, number, plain.variants) for number in range(3)]
    rows = [envs.reset([0, 1, 2], specs) for envs in made]
    draws = np.random.default_rng(0)
    for _ in range(39):
        assert np.array_equal(*rows)
        actions = draws.integers(0, 82, (2, 5))
        first, second = (envs.step([2, 0], actions) for envs in made)
        assert np.array_equal(first.reward, second.reward)
        assert first.costs is None
        assert second.costs is not None
        assert second.costs.shape == (2, len(COSTS))
        rows = [first.obs, second.obs]
    alone = measured.make_envs(1)
    alone.reset([0], [specs[2]])
    draws = np.random.default_rng(0)
    for _ in range(39):
        last = alone.step([0], draws.integers(0, 82, (2, 5))[:1])
    assert last.costs is not None
    assert last.costs[0].tolist() == second.costs[0].tolist()


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_infos_have_costs(checkout, simulator):
    env = parallel_env(simulator=simulator, max_steps=10, measures=True)
    _, infos = env.reset(seed=1)
    assert all("costs" not in infos[agent] for agent in AGENTS)
    *_, infos = env.step(dict(zip(AGENTS, SLEEP_ACTIONS, strict=True)))
    for agent in AGENTS:
        assert tuple(infos[agent]["costs"]) == COSTS
    assert infos[AGENTS[0]]["costs"]["clean_hosts"] > 30
    plain = parallel_env(simulator=simulator, max_steps=10)
    plain.reset(seed=1)
    assert "costs" not in plain.step({})[-1][AGENTS[0]]


def test_what_is_read_of_an_episode_by_hand():
    costs = {name: np.zeros(6) for name in EVALUATED}
    costs["clean_hosts"][:] = [9, 8, 8, 9, 9, 7]
    costs["user_hosts"][:] = [1, 2, 1, 1, 1, 2]
    costs["root_hosts"][:] = [0, 0, 1, 0, 0, 1]
    # A host that Blue takes back after two steps, one that Red keeps, one that nobody defends.
    costs[f"level {ZONES[0]}_user_host_0"][1:3] = [1, 2]
    costs[f"level {ZONES[5]}_server_host_1"][5] = 1
    costs[f"level {ZONES[4]}_user_host_2"][:] = 1
    costs["red_present"][[1, 2, 5]] = 1
    costs["counter_actions"][3] = 1
    costs["healthy_recoveries"][[0, 4]] = [2, 1]
    costs["restores"][[0, 3]] = [2, 1]
    costs["removes"][4] = 1
    costs["green_work"][:] = 10
    costs["green_failures"][[2, 5]] = [3, 5]
    costs["blue_failures"][5] = 2
    costs["impacts"][2] = 1
    costs["downtime"][[1, 5]] = [1, 2]
    costs["action_cost"][0] = 2
    assert {measure.name: measure.read(costs) for measure in BLUE_MEASURES} == {
        "hosts clean": Ratio(50, 60),
        "hosts at user level": Ratio(8, 60),
        "hosts at root level": Ratio(2, 60),
        "time to recover": Times((2,), (0,)),
        "time to first counter-action": Times((2,)),
        "recoveries": Ratio(4),
        "healthy recoveries": Ratio(3),
        "precision of recoveries": Ratio(1, 4),
        "failed green work": Ratio(8, 60),
        "failures caused by Blue": Ratio(2, 8),
        "Impacts": Ratio(1),
        "downtime": Ratio(3),
    }


def scores_of(**given: Any) -> Any:
    settings = ProtocolSettings(check=0, **{"agent": "random", "max_steps": (60,), **given})
    return Cage4Scoring().score(None, None, settings, name="random", episodes=3, seed=5, quiet=True)


def test_evaluations_measure():
    scores = scores_of()
    lines = "\n".join(scores.lines("random"))
    assert lines.index("┘") < lines.index("time to recover") < lines.index("3 episodes of")
    values = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    (task,) = Cage4Scoring().returns(values)
    assert [*values["measures"]] == [task]
    for measure in BLUE_MEASURES:
        (read,) = readings_in(values)[measure.name]
        assert len(read) == 3
    (recoveries,) = readings_in(values)["recoveries"]
    sums = scores.costs
    both = zip(sums["restores"], sums["removes"], strict=True)
    assert [ratio.value for ratio in recoveries] == [sum(of_episode) for of_episode in both]
    assert min(recoveries) > Ratio(5)
    assert [len(part) for part in values["by_step"][task]["clean_hosts"].values()] == [58] * 3
    assert "measured" not in values


def test_zones_have_all_host_steps():
    values = scores_of().to_dict()
    assert {*values["zones"]} == {*ZONES[:8]}
    for name in ("hosts clean", "hosts at user level", "hosts at root level"):
        (of_all,) = readings_in(values)[name]
        zones = [values["zones"][zone] for zone in ZONES[:8]]
        parts = [readings_in({"measures": zone})[name][0] for zone in zones]
        for whole, *of_zones in zip(of_all, *parts, strict=True):
            assert tuple(np.sum(of_zones, axis=0)) == whole


def test_scenarios_are_tasks_of_the_table_and_one_task_of_the_file():
    scores = scores_of(scenarios=("more-phishing", "stealthy-red"))
    values = scores.to_dict()
    (returns,) = Cage4Scoring().returns(values).values()
    (read,) = readings_in(values)["hosts clean"]
    assert len(returns) == len(read) == 6
    first = scores.by_scenario["more-phishing"].measured.of_all["hosts clean"]
    assert read[:3] == first
    assert sum("hosts clean" in line for line in scores.lines("random")) == 1
