"""The costs of steps against what is counted here from CybORG's own objects, and by hand."""

import importlib.util
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.workflow_rl.cage2.random_networks import random_scenario
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.viewed_envs import record_envs
from workflow_rl.cage2.red.roster import able_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.environments.episode import EpisodeSpec

NAMES = (
    *("clean_hosts", "user_hosts", "root_hosts", "impacts", "restores", "removes"),
    *("healthy_recoveries", "counter_actions", "analyses", "decoys", "red_present", "action_cost"),
)
SCENARIO2, SCENARIO1B = Scenario.scenario2(), Scenario.scenario1b()


class Counted:
    """The costs of a CybORG's steps, counted from the objects of its hosts and sessions."""

    def __init__(self, env: Cage2Env, scenario: Scenario) -> None:
        simulator: Any = env._simulator
        self._controller = getattr(simulator, "_controller", None)
        self._simulator = simulator
        self._hosts, self._foothold = scenario.hosts, scenario.red_host
        self._before = self._levels()

    def _levels(self) -> dict[str, int]:
        in_one = self._controller is None
        state = self._simulator._state if in_one else self._controller.state
        levels = {}
        for name in self._hosts:
            idents = state.hosts[name].sessions.get("Red", [])
            of_host = [state.sessions["Red"][ident] for ident in idents]
            if name == self._foothold:
                of_host = [session for session in of_host if session.ident != 0]
            users = {session.username for session in of_host}
            levels[name] = 2 if users & {"root", "SYSTEM"} else 1 if users else 0
        return levels

    def _red_did(self) -> tuple[str, str]:
        if self._controller is None:
            _, red = self._simulator._actions
            return type(red).__name__, self._simulator._red_obs["success"].name
        controller = self._controller
        success = controller.observation["Red"].data["success"]
        return type(controller.action["Red"]).__name__, str(success)

    def after(self, action: str, blue_succeeded: bool) -> dict[str, float]:
        kind, _, target = action.partition(" ")
        before, levels = self._before, self._levels()
        self._before = levels
        counted = [level for host, level in levels.items() if host != self._foothold]
        recovers = kind in ("Restore", "Remove") and blue_succeeded
        values = {
            "clean_hosts": counted.count(0),
            "user_hosts": counted.count(1),
            "root_hosts": counted.count(2),
            "impacts": self._red_did() == ("Impact", "TRUE"),
            "restores": recovers and kind == "Restore",
            "removes": recovers and kind == "Remove",
            "healthy_recoveries": recovers and not before[target] and target != self._foothold,
            "counter_actions": recovers and before[target] > 0,
            "analyses": kind == "Analyse" and blue_succeeded,
            "decoys": (kind == "Misinform" or "Decoy" in kind) and blue_succeeded,
            "red_present": any(counted),
            "action_cost": 1.0 if kind == "Restore" else 0.0,
        }
        values |= {f"level {h}": level for h, level in levels.items() if h != self._foothold}
        return {name: float(value) for name, value in values.items()}


def drawn_actions(scenario: Scenario, seed: int, n_steps: int) -> list[int]:
    """Actions that follow from the seed. Each kind is as likely as the others."""
    draw = random.Random(seed)
    by_kind: dict[str, list[int]] = {}
    for index, name in enumerate(scenario.action_names):
        by_kind.setdefault(name.partition(" ")[0], []).append(index)
    weights = [4 if kind == "Sleep" else 1 for kind in by_kind]
    kinds = draw.choices(list(by_kind.values()), weights, k=n_steps)
    return [draw.choice(of_kind) for of_kind in kinds]


def compare(scenario: Scenario, red: str, seed: int, n_steps: int) -> NDArray[np.float64]:
    """Compare all columns in one episode. Return the sums of the columns in NAMES."""
    actions = drawn_actions(scenario, seed, n_steps)
    envs = record_envs(Cage2(red, n_steps, scenario=scenario.text, measures=True), 2)
    envs.reset([1], [EpisodeSpec(0, red, seed, 0)])
    steps = [envs.step([1], np.array([action])).costs for action in actions]
    compiled = np.concatenate([costs for costs in steps if costs is not None])
    options: Any = {"max_steps": n_steps, "scenario": scenario, "measures": True}
    env = Cage2Env(red, simulator="cyborg", **options)
    env.reset(seed=seed)
    counter = Counted(env, scenario)
    for step, action in enumerate(actions):
        *_, info = env.step(action)
        succeeded = bool(info["blue_success"] == 1)
        expected = counter.after(scenario.action_names[action], succeeded)
        where = f"{scenario}, {red}, seed {seed}, step {step}"
        assert info["costs"] == expected, where
        assert compiled[step].tolist() == list(expected.values()), where
    assert tuple(expected)[: len(NAMES)] == NAMES
    return compiled.sum(axis=0)[: len(NAMES)]


@pytest.mark.parametrize("red", RED_AGENTS)
def test_are_those_of_cyborg_in_scenario_2(red: str) -> None:
    compare(SCENARIO2, red, seed=3, n_steps=60)


@pytest.mark.slow
def test_are_those_of_cyborg_in_100_episodes() -> None:
    sums = [compare(SCENARIO2, RED_AGENTS[seed % 3], seed, 100) for seed in range(100)]
    assert (np.sum(sums, axis=0) > 0).all()


@pytest.mark.slow
def test_are_those_of_cyborg_in_20_random_networks() -> None:
    for seed in range(20):
        scenario = random_scenario(seed, 4 + seed % 11)
        for red in able_reds(scenario):
            compare(scenario, red, seed, 60)


@pytest.mark.slow
def test_are_those_of_challenge_1() -> None:
    if importlib.util.find_spec("CybORG") is None:
        pytest.skip("CAGE-1's CybORG is not installed")
    sums = [compare(SCENARIO1B, RED_AGENTS[seed % 3], seed, 100) for seed in range(40)]
    assert (np.sum(sums, axis=0) > 0).all()


def stepped(env: Cage2Env, *actions: str) -> Iterator[dict[str, float]]:
    env.reset(seed=0)
    for action in actions:
        yield env.step(env.scenario.action_names.index(action))[-1]["costs"]


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_of_an_episode_by_hand(simulator: str) -> None:
    """B_line pings User, scans, exploits and escalates on a host there, and goes on to Enterprise1.
    When it is thrown out, it exploits the host once more, as root."""
    env = Cage2Env("B_lineAgent", 30, simulator, measures=True)
    host = entered(env)
    user = {"user_hosts": 1, "red_present": 1, f"level {host}": 1}
    root = {"root_hosts": 1, "red_present": 1, f"level {host}": 2}
    restored = {"restores": 1, "action_cost": 1}
    also_user = {"user_hosts": 1, "level Enterprise1": 1}
    expected: list[tuple[str, dict[str, int], int]] = [
        ("Sleep", {}, 12),
        ("Sleep", {}, 12),
        ("Sleep", user, 11),
        ("Restore Defender", root | restored | {"healthy_recoveries": 1}, 11),
        # Remove does nothing to root, but answers Red.
        (f"Remove {host}", root | {"removes": 1, "counter_actions": 1}, 11),
        # The port of this decoy is in use.
        ("DecoyTomcat Enterprise2", root, 11),
        # Red comes back within the step.
        (f"Restore {host}", root | restored | {"counter_actions": 1}, 11),
        (f"Remove {host}", root | {"removes": 1, "counter_actions": 1}, 11),
        # The foothold's host is neither healthy nor held.
        ("Restore User0", root | restored, 11),
        (f"Analyse {host}", root | also_user | {"analyses": 1}, 10),
        ("DecoyVsftpd Op_Host0", root | {"root_hosts": 2, "level Enterprise1": 2, "decoys": 1}, 10),
    ]
    costs = stepped(env, *(action for action, _, _ in expected))
    for of_step, (_, others, n_clean) in zip(costs, expected, strict=True):
        assert {name for name in of_step if not name.startswith("level ")} == set(NAMES)
        assert of_step.pop("clean_hosts") == n_clean
        assert {name: cost for name, cost in of_step.items() if cost} == others


def entered(env: Cage2Env) -> str:
    """Return the host on which Red has its first session, if Blue sleeps."""
    for costs in stepped(env, *["Sleep"] * 3):
        levels = [name for name in costs if name.startswith("level ") and costs[name]]
    (level,) = levels
    return level.removeprefix("level ")


def test_do_not_change_what_is_played() -> None:
    actions = drawn_actions(SCENARIO2, 1, 30)
    for simulator in ("compiled", "cyborg"):
        played = []
        for measures in (False, True):
            envs = Cage2("B_lineAgent", 30, simulator, measures=measures).make_envs(1)
            rows = [envs.reset([0], [EpisodeSpec(0, "B_lineAgent", 7, 0)])]
            answers = [envs.step([0], np.array([action])) for action in actions]
            assert all((answer.costs is not None) == measures for answer in answers)
            rows += [answer.obs for answer in answers]
            played.append((np.concatenate(rows), [answer.reward[0] for answer in answers]))
        assert np.array_equal(played[0][0], played[1][0])
        assert played[0][1] == played[1][1]


def test_name_the_columns_of_a_training() -> None:
    environment = Cage2(measures=True)
    assert environment.spaces().costs == NAMES
    assert Cage2().spaces().costs == ()


def test_of_an_opening_count_with_the_first_step() -> None:
    opening = ("Restore User1", "Remove User2")
    environment = Cage2("SleepAgent", 10, opening=opening, measures=True)
    envs = environment.make_envs(3)
    for _ in range(2):
        envs.reset([0, 2], [EpisodeSpec(n, "SleepAgent", n, 0) for n in range(2)])
        first, second = (envs.step([0, 2], np.zeros(2, np.int64)).costs for _ in range(2))
        assert first is not None
        assert second is not None
        at = NAMES.index
        assert first[:, at("clean_hosts")].tolist() == [36, 36]
        assert first[:, at("healthy_recoveries")].tolist() == [2, 2]
        assert second[:, at("clean_hosts")].tolist() == [12, 12]
        assert second[:, at("healthy_recoveries")].tolist() == [0, 0]


def test_of_a_family_are_of_the_network_that_is_played() -> None:
    family = ScenarioFamily.from_ranges(
        {"networks": 3, "hosts": {"User": [3, 9], "Enterprise": [4, 6]}}
    )
    shown = {"observation": "history", "actions": "by-host", "scenario": family.text}
    envs = Cage2("SleepAgent", 5, measures=True, **shown).make_envs(3)
    envs.reset([0, 1, 2], [EpisodeSpec(n, "SleepAgent", n, 0) for n in range(3)])
    costs = envs.step([0, 1, 2], np.zeros(3, np.int64)).costs
    assert costs is not None
    n_hosts = [len(network.hosts) for network in family.drawn(range(3))]
    assert len(set(n_hosts)) > 1
    assert costs[:, 0].tolist() == [n - 1 for n in n_hosts]
    assert not costs[:, 1:].any()
