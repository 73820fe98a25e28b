import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.views import VIEWS
from workflow_rl.cage4.env import parallel_env as module
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.red.roster import REDS
from workflow_rl.cage4.scenario.scenario4 import (
    AGENTS,
    N_ACTIONS,
    OBS_SIZES,
    SLEEP_ACTIONS,
    Scenario,
)
from workflow_rl.environments.episode import episode_spec

SLEEP = dict(zip(AGENTS, SLEEP_ACTIONS, strict=True))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CountingSimulator]:
    """The simulators that envs make."""
    simulators: list[CountingSimulator] = []

    def make_simulator(
        name: str, red_agent: str, max_steps: int, scenario: Scenario, measures: bool
    ) -> Any:
        simulators.append(CountingSimulator(red_agent, max_steps, scenario=scenario))
        return simulators[-1]

    monkeypatch.setattr(module, "make_simulator", make_simulator)
    return simulators


def test_spaces_are_the_challenges(made: Any) -> None:
    env = parallel_env()
    observations, infos = env.reset(seed=1)
    assert env.agents == env.possible_agents == list(AGENTS)
    for agent, size, n in zip(AGENTS, OBS_SIZES, N_ACTIONS, strict=True):
        assert env.action_space(agent).n == n
        assert env.observation_space(agent).shape == (size,)
        assert env.observation_space(agent).contains(observations[agent])
        assert infos[agent]["action_mask"].shape == (n,)
        assert infos[agent]["phase"] == infos[agent]["busy_steps"] == 0
        assert env.action_space(agent).sample(infos[agent]["action_mask"]) in (0, SLEEP[agent])


def test_the_end_is_a_truncation_after_which_nobody_acts(made: Any) -> None:
    env = parallel_env(max_steps=4)
    env.reset(seed=1)
    for step in (1, 2, 3):
        _, rewards, terminations, truncations, _ = env.step(SLEEP)
        assert rewards == dict.fromkeys(AGENTS, -float(step))
        assert terminations == dict.fromkeys(AGENTS, False)
        assert truncations == dict.fromkeys(AGENTS, step == 3)
    assert env.agents == []
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(SLEEP)
    env.reset()
    assert env.agents == list(AGENTS)
    assert made[0].seeds == [1, None]


def test_agents_without_an_action_sleep_and_send_nothing(made: Any) -> None:
    env = parallel_env()
    env.reset(seed=1)
    env.step({"blue_agent_1": 5}, messages={"blue_agent_3": [1, 0, 0, 0, 0, 0, 0, 1]})
    actions, messages = made[0].seen[0]
    assert actions == [49, 5, 49, 49, 145]
    assert messages.sum() == 2
    assert messages[3].tolist() == [1, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        ("step", [{"blue_agent_0": 82}], r"actions\['blue_agent_0'\]=82: choose 0 to 81"),
        ("step", [{"blue_agent_0": 1.7}], r"\['blue_agent_0'\]=1\.7: a whole number is needed"),
        ("step", [{"blue_agent_0": True}], "=True: a whole number is needed"),
        ("step", [{"blue_agent_9": 0}], "agent 'blue_agent_9' is unknown"),
        ("step", [{}, {"blue_agent_0": [1]}], "give 8 zeros and ones"),
        ("step", [{}, {"blue_agent_0": [2] * 8}], "give 8 zeros and ones"),
        ("step", [{}, {"red_agent_0": [0] * 8}], "agent 'red_agent_0' is unknown"),
        ("reset", [-1], "seed=-1: choose 0 or more"),
        ("reset", [1.5], r"seed=1\.5: a whole number is needed"),
    ],
)
def test_wrong_arguments_are_named(made: Any, call: str, given: list[Any], words: str) -> None:
    env = parallel_env()
    env.reset(seed=1)
    with pytest.raises(ValueError, match=words):
        getattr(env, call)(*given)


def test_an_option_chooses_the_red_agent(made: Any) -> None:
    env = parallel_env(phishing_rate=0.75, users=6)
    with pytest.raises(ValueError, match="there is no such folder"):
        env.reset(seed=1, options={"red_agent": "runs/nobody"})
    assert env.red_agent == "FiniteStateRedAgent"
    env.reset(seed=1, options={"red_agent": "DiscoveryFSRed"})
    assert env.red_agent == "DiscoveryFSRed"
    env.reset(seed=2)
    assert [simulator.seeds for simulator in made] == [[], [1, 2]]
    # All play in the scenario of the arguments.
    assert [simulator.scenario for simulator in made] == [Scenario(phishing_rate=0.75, users=6)] * 2


def test_the_seed_draws_one_of_several_red_agents() -> None:
    mixture = "FiniteStateRedAgent,DiscoveryFSRed=2"
    env, again, alone = (parallel_env(max_steps=6, red_agent=mixture) for _ in range(3))
    drawn = set()
    for seed in (3, 4, None, None, 5):
        first, second = env.reset(seed=seed), again.reset(seed=seed)
        assert repr(first) == repr(second)
        assert env.red_agent == again.red_agent
        drawn.add(env.red_agent)
        if seed is not None:
            assert env.red_agent == REDS.read(mixture).drawn(seed).name
            alone.reset(seed=seed, options={"red_agent": env.red_agent})
            assert repr(env.step({})) == repr(alone.step({}))
    assert drawn == {"FiniteStateRedAgent", "DiscoveryFSRed"}


def test_raw_observations_are_in_their_space(made: Any) -> None:
    env = parallel_env(observation="raw")
    observations, _ = env.reset(seed=1)
    assert observations["blue_agent_0"] == {"success": "TRUE", "host_0": {"Files": []}}
    observations, *_ = env.step(SLEEP)
    space = env.observation_space("blue_agent_4")
    assert space.contains(observations["blue_agent_4"])
    assert space.contains(space.sample())
    assert not space.contains({"host_0": {}})
    assert not space.contains({"success": "TRUE", "host_0": {"PID": np.int64(3)}})
    assert space == env.observation_space("blue_agent_0")
    assert space != parallel_env().observation_space("blue_agent_0")


def test_arguments_that_there_are_not_are_refused(made: Any) -> None:
    with pytest.raises(ValueError, match="observation='beliefs': choose flat, raw, belief"):
        parallel_env(observation="beliefs")
    with pytest.raises(ValueError, match="servers=7: choose 1 to 6"):
        parallel_env(servers=7)
    with pytest.raises(ValueError, match="red_agent: my_red:Mine cannot be imported"):
        parallel_env(red_agent="my_red:Mine")


def test_numpys_integers_are_taken(made: Any) -> None:
    env = parallel_env()
    env.reset(seed=np.int64(3))  # type: ignore[arg-type]
    env.step({"blue_agent_0": np.uint8(5), "blue_agent_1": np.array(6)})  # type: ignore[dict-item]
    assert made[0].seeds == [3]
    assert made[0].seen[0][0][:2] == [5, 6]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_shares_nothing(way: Any) -> None:
    env = parallel_env("compiled")
    env.reset(seed=3)
    twin = way(env)
    for _ in range(3):
        shown = env.step(SLEEP)
    for _ in range(3):
        repeated = twin.step(SLEEP)
    for agent in AGENTS:
        assert np.array_equal(shown[0][agent], repeated[0][agent])
    assert shown[1] == repeated[1]


@pytest.mark.parametrize("observation", ["belief", "hidden"])
def test_a_belief_is_what_the_policies_of_a_team_see(observation: str) -> None:
    """Also with actions of busy agents and on hosts that do not exist, which nobody plays."""
    env = parallel_env(max_steps=90, observation=observation)
    environment = Cage4(observation=observation, messages="alerts", max_steps=90)
    envs, spec = environment.make_envs(1), episode_spec(0, 4, environment.variants)
    rows, (seen, infos) = envs.reset([0], [spec]), env.reset(seed=spec.env_seed)
    sizes, draw = VIEWS[observation].obs_sizes(listens=True), np.random.default_rng(3)
    n_played = 0
    while env.agents:
        for agent in AGENTS:
            assert env.observation_space(agent).contains(seen[agent])
        shown = np.concatenate([seen[agent] for agent in AGENTS])
        assert shown.tobytes() == rows[0, : sum(sizes)].astype(np.float32).tobytes()
        # More than half are actions on hosts, of which some do not exist.
        actions = np.array([draw.integers(0, n) for n in N_ACTIONS])
        masks = [infos[agent]["action_mask"] for agent in AGENTS]
        possible = [mask[i] for mask, i in zip(masks, actions, strict=True)]
        n_played += int(np.sum(possible))
        messages = dict(zip(AGENTS, envs._rows.sent[0].astype(int), strict=True))
        seen, rewards, *_, infos = env.step(dict(zip(AGENTS, actions, strict=True)), messages)
        answer = envs.step([0], np.where(possible, actions, SLEEP_ACTIONS)[None])
        rows = answer.obs
        # Restores that busy agents hand in cost, and the policies of a team hand in none.
        assert all(reward <= answer.reward[0] for reward in rewards.values())
    assert 0 < n_played < 89 * 5
    assert rows[0, : sum(sizes)].any()


@pytest.mark.parametrize("observation", ["flat", "raw", "belief"])
def test_pettingzoos_own_tests_pass(checkout: Path, observation: str) -> None:
    tests = pytest.importorskip("pettingzoo.test")

    def made() -> Any:
        return parallel_env("cyborg", max_steps=12, observation=observation)

    tests.parallel_api_test(made(), num_cycles=30)
    tests.parallel_seed_test(made, num_cycles=8)
