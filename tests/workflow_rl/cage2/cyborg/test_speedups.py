"""The sped-up simulator against csle-cyborg as published: whole traces, and the network itself."""

from __future__ import annotations

import enum
import ipaddress
import random
import sys
from typing import Any

import pytest

from workflow_rl.cage2.agent.scripted import ScriptedAgent, ScriptedBlue, make_blue_agent
from workflow_rl.cage2.cyborg.speedups import CYBORG
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS

pytestmark = pytest.mark.system

POLICIES = ("random", "sleep", "react-remove", "react-restore", "decoys", "all-kinds")
# An address of the network that a process of Defender is bound to in the scenario.
BOUND_ADDRESS = ipaddress.IPv4Address("10.0.11.88")


@pytest.fixture(scope="module")
def stock() -> Cage2Env:
    return Cage2Env(simulator="published")


@pytest.fixture(scope="module")
def sped_up() -> Cage2Env:
    return Cage2Env(simulator="cyborg")


def network(env: Cage2Env) -> Any:
    """The network's state in plain values; ordered as the simulator orders it."""
    simulator: Any = env._simulator
    state = simulator._state if hasattr(simulator, "_state") else simulator._controller.state
    names = ("hosts", "sessions", "subnets", "ip_addresses", "sessions_count")
    return {name: plain(getattr(state, name)) for name in names}


def plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv4Network)):
        return str(value)
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__"):
        # A host's description in the scenario, and what is copied from it, are not its state.
        unread = ("default_process_info", "info")
        facts = {key: plain(item) for key, item in vars(value).items() if key not in unread}
        return type(value).__name__, sorted(facts.items())
    return value


def assert_same_episode(
    stock: Cage2Env,
    sped_up: Cage2Env,
    blue: ScriptedBlue,
    red_agent: str,
    seed: int,
    look_into_network: bool = False,
) -> None:
    """One episode in both: equal obs, reward and info (actions, successes) at every step."""
    options = {"red_agent": red_agent}
    obs, info = stock.reset(seed=seed, options=options)
    same_obs, same_info = sped_up.reset(seed=seed, options=options)
    policy = ScriptedAgent(blue)
    policy.reset(seed)
    step, truncated = 0, False
    while not truncated:
        where = f"{red_agent}, seed {seed}, step {step}"
        assert obs.tolist() == same_obs.tolist(), where
        assert repr(info) == repr(same_info), where
        if look_into_network and step in (0, 1, 7, 20, 45, 99):
            assert network(stock) == network(sped_up), where
        action = policy.act(obs, info)
        obs, reward, _, truncated, info = stock.step(action)
        same_obs, same_reward, _, _, same_info = sped_up.step(action)
        assert repr(reward) == repr(same_reward), where
        step += 1
    assert obs.tolist() == same_obs.tolist()
    assert repr(info) == repr(same_info)
    assert stock.describe(truth=True) == sped_up.describe(truth=True)


@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_the_network_itself_is_identical(stock, sped_up, red_agent):
    for seed, policy in enumerate(POLICIES, start=100):
        assert_same_episode(stock, sped_up, make_blue_agent(policy), red_agent, seed, True)


# In these episodes a host has that address: another host, or Defender itself.
@pytest.mark.parametrize("seed", [1097, 160431])
def test_an_address_that_a_process_is_bound_to_is_listed_first(stock, sped_up, seed):
    assert_same_episode(stock, sped_up, make_blue_agent("sleep"), "RedMeanderAgent", seed, True)
    simulator: Any = sped_up._simulator
    assert next(iter(simulator._red_knows["ip_address"])) == BOUND_ADDRESS


# In these episodes a PID drawn for a session is taken, or is 0, and is drawn again.
@pytest.mark.parametrize("seed", [110, 800])
def test_pids_are_drawn_again_when_cyborg_does(stock, sped_up, seed, monkeypatch):
    drawn = []

    def randrange(stop: int) -> int:
        drawn.append(random.Random.randrange(CYBORG.random, stop))
        return drawn[-1]

    monkeypatch.setattr(CYBORG.random, "randrange", randrange)
    sped_up.reset(seed=seed)
    agents = Scenario.scenario2().description()["Agents"]
    n_sessions = sum(len(agent["starting_sessions"]) for agent in agents.values())
    assert len(drawn) > n_sessions
    monkeypatch.undo()
    assert_same_episode(stock, sped_up, make_blue_agent("all-kinds"), "RedMeanderAgent", seed, True)


def test_what_red_may_not_do_is_turned_down(stock, sped_up, monkeypatch):
    """Two red actions no red agent chooses: on an address it has not found, and one of Blue's."""
    for env in (stock, sped_up):
        simulator: Any = env._simulator
        env.reset(seed=3, options={"red_agent": "SleepAgent"})
        red = simulator._red_agents["SleepAgent"]
        controller = getattr(simulator, "_controller", None)
        state = simulator._state if controller is None else controller.state
        package = CYBORG.modules if controller is None else sys.modules
        actions = package["csle_cyborg.shared.actions"]
        address = next(ip for ip, host in state.ip_addresses.items() if host == "Op_Host1")
        chosen = [
            actions.DiscoverNetworkServices(session=0, agent="Red", ip_address=address),
            actions.Monitor(session=0, agent="Red"),
            actions.Sleep(),
        ]
        monkeypatch.setattr(red, "get_action", lambda obs, space, chosen=chosen: chosen.pop(0))
    for expected in ("InvalidAction", "InvalidAction", "Sleep"):
        obs, *rest, info = stock.step(1)
        same_obs, *same_rest, same_info = sped_up.step(1)
        assert stock.describe(truth=True) == sped_up.describe(truth=True)
        assert stock.describe(truth=True)["red_action"] == expected
        assert (obs.tolist(), rest, repr(info)) == (same_obs.tolist(), same_rest, repr(same_info))
        assert network(stock) == network(sped_up)


def test_a_sped_up_env_keeps_nothing_of_earlier_episodes(sped_up):
    for seed, red_agent in enumerate(RED_AGENTS):
        fresh = Cage2Env(simulator="cyborg")
        assert_same_episode(fresh, sped_up, make_blue_agent("all-kinds"), red_agent, seed, True)


def test_the_published_package_is_untouched():
    Cage2Env(simulator="published")
    from csle_cyborg.shared import enums
    from csle_cyborg.shared.actions.abstract_actions import misinform
    from csle_cyborg.simulator import host, state

    assert host.Host.restore.__module__ == "csle_cyborg.simulator.host"
    assert misinform._is_host_using_port.__module__ == misinform.__name__
    assert not hasattr(enums.ProcessType.parse_string, "cache_info")
    assert state.choice.__self__ is host.randrange.__self__ is random.choice.__self__


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_two_hundred_episodes_are_identical(stock, sped_up, red_agent, policy):
    for seed in range(1000, 1200):
        look = seed % 20 == 0
        assert_same_episode(stock, sped_up, make_blue_agent(policy), red_agent, seed, look)
