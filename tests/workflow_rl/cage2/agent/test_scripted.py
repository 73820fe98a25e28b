import random
from typing import Any

import numpy as np
import pytest

from workflow_rl import load_agent
from workflow_rl.cage2.agent.scripted import make_scripted_agent
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES

MONITOR, N_ACTIONS = ACTION_NAMES.index("Monitor"), len(ACTION_NAMES)
OBS = np.zeros(52, np.uint8)
CYBORGS_AGENTS = {
    "sleep": "SleepAgent",
    "react-remove": "BlueReactRemoveAgent",
    "react-restore": "BlueReactRestoreAgent",
}


def test_agents_play_in_other_scenarios() -> None:
    scenario = Scenario.scenario2().add_host("Web0", "Gateway", "Enterprise").enter_at("User1")
    agent = make_scripted_agent("react-restore", scenario)
    agent.reset(0)
    caught = np.isin(scenario.hosts, ["User0", "User1", "Web0"])
    obs = np.zeros(scenario.obs_size, np.uint8)
    acts = [scenario.action_names[agent.act(obs, {"suspicious_hosts": caught})] for _ in range(4)]
    assert acts == ["Monitor", "Restore User0", "Restore Web0", "Monitor"]
    with pytest.raises(ValueError, match="Blue cannot Restore in scenario2"):
        make_scripted_agent("react-restore", without_restore())


def without_restore() -> Scenario:
    challenge = Scenario.scenario2()
    return challenge.let_blue(kind for kind in challenge.kinds_of_action if kind != "Restore")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="agent='react': choose one of sleep, random, react-rem"):
        make_scripted_agent("react")


def test_the_random_agent_draws_all_actions_evenly_and_by_its_seed() -> None:
    agent = make_scripted_agent("random")
    agent.reset(4)
    drawn = [agent.act(OBS) for _ in range(14_500)]
    counts = np.bincount(drawn, minlength=N_ACTIONS)
    # Standard deviation 10 around 100.
    assert counts.shape == (N_ACTIONS,)
    assert 50 < counts.min() <= counts.max() < 150
    agent.reset(4)
    assert [agent.act(OBS) for _ in range(50)] == drawn[:50]
    agent.reset(5)
    assert [agent.act(OBS) for _ in range(50)] != drawn[:50]


def test_a_react_agent_says_what_it_needs() -> None:
    agent = make_scripted_agent("react-remove")
    agent.reset(0)
    with pytest.raises(ValueError, match="suspicious_hosts"):
        agent.act(OBS)


def test_the_agent_of_decoys_acts_by_what_it_sees_in_any_scenario() -> None:
    scenario = Scenario.scenario2().add_host(
        "Vault", "OP_Server", "Enterprise", "High", leads_to=["Op_Server0"]
    )
    agent = make_scripted_agent("decoys", scenario)
    obs = np.zeros(scenario.obs_size, np.uint8)

    def act(**compromised: tuple[int, int]) -> str:
        shown = obs.copy()
        for name, bits in compromised.items():
            host = scenario.hosts.index(name)
            shown[4 * host + 2 : 4 * host + 4] = bits
        return scenario.action_names[agent.act(shown)]

    agent.reset()
    hosts = [act().partition(" ")[2] for _ in range(5)]
    assert hosts == ["Enterprise0", "Enterprise1", "Enterprise2", "Op_Server0", "Vault"]
    assert act(User1=(0, 1), Enterprise0=(1, 0)) == "Remove Enterprise0"
    # The host that is worth most comes first, and what the removal did not help is restored.
    assert act(User1=(0, 1), Enterprise0=(1, 0), Vault=(1, 1)) == "Restore Vault"
    assert act(User1=(0, 1)) == "Remove User1"
    assert act(User1=(0, 1)) == "Restore User1"
    assert act().startswith("Decoy")
    # Red's own host is left to Red.
    assert act(User0=(1, 1)).startswith("Decoy")
    assert {act() for _ in range(30)} >= {"Analyse User4", "Analyse Vault"}
    with pytest.raises(ValueError, match="Blue cannot Restore in scenario2"):
        make_scripted_agent("decoys", without_restore())


@pytest.mark.parametrize("name", ["decoys", "react-remove"])
def test_an_observation_of_another_scenario_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="56 bits, and observations of scenario2 "):
        make_scripted_agent(name).act(
            np.zeros(56, np.uint8), {"suspicious_hosts": np.zeros(13, np.bool_)}
        )


def test_scripted_agents_are_agents_in_python() -> None:
    returns = {}
    for name in ("decoys", "react-restore"):
        agent = load_agent(name, env="workflow_rl/CAGE2-v0")
        returns[name] = np.sum(rewards_of(agent, "B_lineAgent", range(3))) / 3
    assert returns["decoys"] > -80 > returns["react-restore"]


@pytest.mark.parametrize("red_agent", ["B_lineAgent", "RedMeanderAgent"])
@pytest.mark.parametrize("agent_name", CYBORGS_AGENTS)
def test_the_agents_play_exactly_like_cyborgs_own(agent_name: str, red_agent: str) -> None:
    """On CybORG as published, through its own interface."""
    from csle_cyborg import agents
    from csle_cyborg.main import Main

    described = Scenario.scenario2().description()
    cyborg = Main(described, "sim", agents={"Red": getattr(agents, red_agent)})
    agent = getattr(agents, CYBORGS_AGENTS[agent_name])()
    episodes = []
    for seed in range(2):
        random.seed(seed)
        result = cyborg.reset(agent="Blue")
        agent.end_episode()
        rewards = []
        for _ in range(100):
            action = agent.get_action(result.observation, result.action_space)
            result = cyborg.step(agent="Blue", action=action)
            rewards.append(result.reward)
        episodes.append(rewards)
    assert rewards_of(make_scripted_agent(agent_name), red_agent, range(2)) == episodes


def rewards_of(agent: Any, red_agent: str, seeds: range) -> list[list[float]]:
    """Rewards of an agent on the package's env."""
    env, episodes = Cage2Env(red_agent), []
    for seed in seeds:
        obs, info = env.reset(seed=seed)
        agent.reset(seed)
        rewards: list[Any] = []
        truncated = False
        while not truncated:
            obs, reward, _, truncated, info = env.step(agent.act(obs, info))
            rewards.append(reward)
        episodes.append(rewards)
    return episodes
