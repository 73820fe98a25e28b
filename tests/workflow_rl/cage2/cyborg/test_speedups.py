"""The sped-up simulator against csle-cyborg as published: whole traces, and the network itself."""

import enum
import ipaddress
import random
import sys
from typing import Any

import pytest

from workflow_rl.cage2.agent.scripted import ScriptedAgent, make_blue_agent
from workflow_rl.cage2.cyborg.speedups import CYBORG
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import RED_AGENTS

pytestmark = pytest.mark.system

POLICIES = ("random", "sleep", "react-remove", "react-restore", "decoys", "all-kinds")


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


@pytest.mark.parametrize(("seed", "blue"), enumerate(POLICIES, start=100))
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_the_network_itself_is_identical(stock, sped_up, red_agent, seed, blue):
    """At some steps. Observations, rewards and infos are equal at every step."""
    options = {"red_agent": red_agent}
    obs, info = stock.reset(seed=seed, options=options)
    same_obs, same_info = sped_up.reset(seed=seed, options=options)
    policy = ScriptedAgent(make_blue_agent(blue))
    policy.reset(seed)
    step, truncated = 0, False
    while not truncated:
        where = f"{red_agent}, seed {seed}, step {step}"
        assert obs.tolist() == same_obs.tolist(), where
        assert repr(info) == repr(same_info), where
        if step in (0, 1, 7, 20, 45, 99):
            assert network(stock) == network(sped_up), where
        action = policy.act(obs, info)
        obs, reward, _, truncated, info = stock.step(action)
        same_obs, same_reward, _, _, same_info = sped_up.step(action)
        assert repr(reward) == repr(same_reward), where
        step += 1
    assert obs.tolist() == same_obs.tolist()
    assert repr(info) == repr(same_info)
    assert stock.describe(truth=True) == sped_up.describe(truth=True)


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


def test_the_published_package_is_untouched():
    Cage2Env(simulator="published")
    from csle_cyborg.shared import enums
    from csle_cyborg.shared.actions.abstract_actions import misinform
    from csle_cyborg.simulator import host, state

    assert host.Host.restore.__module__ == "csle_cyborg.simulator.host"
    assert misinform._is_host_using_port.__module__ == misinform.__name__
    assert not hasattr(enums.ProcessType.parse_string, "cache_info")
    assert state.choice.__self__ is host.randrange.__self__ is random.choice.__self__
