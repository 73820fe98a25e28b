import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import (
    ACTION_NAMES,
    HOSTS,
    RED_ACTIONS,
    RED_AGENTS,
    RED_TARGETS,
    SUCCESSES,
)

ROOT = Path(__file__).parents[4]


def play(env: Cage2Env, seed: int, actions: list[int], red_agent: str | None = None) -> list[Any]:
    """The trace of one episode: observation, reward and info after the reset and every step."""
    options = None if red_agent is None else {"red_agent": red_agent}
    trace: list[Any] = [plain(*env.reset(seed=seed, options=options))]
    return trace + [plain(*env.step(action)) for action in actions]


def plain(obs: Any, *rest: Any) -> tuple[Any, ...]:
    """What can be compared."""
    *others, info = rest
    shown = {name: np.asarray(value).tolist() for name, value in info.items()}
    return (obs.tolist(), *others, shown)


def random_actions(seed: int, n: int = 40) -> list[int]:
    return np.random.default_rng(seed).integers(len(ACTION_NAMES), size=n).tolist()


@pytest.mark.parametrize("max_steps", [30, 100])
def test_an_episode_is_truncated_after_max_steps_and_never_terminates(max_steps: int) -> None:
    env = Cage2Env(max_steps=max_steps)
    trace = play(env, seed=1, actions=[0] * max_steps)
    assert [truncated for *_, truncated, _ in trace[1:]] == [False] * (max_steps - 1) + [True]
    assert not any(terminated for _, _, terminated, *_ in trace[1:])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    assert play(env, seed=1, actions=[0] * max_steps) == trace


def test_resets_without_a_seed_go_on_from_the_last_one_given() -> None:
    def traces(env: Cage2Env) -> list[Any]:
        found = [play(env, 3, [0] * 20)]
        for _ in range(3):
            env.reset()
            found.append(
                [(env.step(0), env.describe(truth=True)["red_action"])[1] for _ in range(20)]
            )
        return found

    first, again = traces(Cage2Env("RedMeanderAgent")), traces(Cage2Env("RedMeanderAgent"))
    assert first == again
    assert first[1] != first[2] != first[3]


@pytest.mark.parametrize(
    "simulators",
    [("cyborg", "cyborg"), ("published", "published"), ("cyborg", "published")],
)
def test_interleaved_envs_equal_separate_ones(simulators: tuple[str, str]) -> None:
    envs = [Cage2Env("RedMeanderAgent", simulator=simulator) for simulator in simulators]
    actions = [random_actions(seed) for seed in range(2)]
    separate = [play(env, seed, actions[seed]) for seed, env in enumerate(envs)]
    interleaved: list[list[Any]] = []
    for seed, env in enumerate(envs):
        interleaved.append([plain(*env.reset(seed=seed))])
    for pair in zip(*actions, strict=True):
        for trace, env, action in zip(interleaved, envs, pair, strict=True):
            trace.append(plain(*env.step(action)))
    assert interleaved == separate
    assert play(envs[0], 8, actions[0]) != separate[0]


@pytest.mark.parametrize("simulator", ["cyborg", "published"])
def test_pythons_global_random_is_neither_changed_nor_read(simulator: str) -> None:
    random.seed(1)
    before = random.getstate()
    env = Cage2Env("RedMeanderAgent", simulator=simulator)
    trace = play(env, 5, random_actions(5))
    assert random.getstate() == before

    disturbed: list[Any] = [plain(*env.reset(seed=5))]
    for action in random_actions(5):
        random.seed(2)
        disturbed.append(plain(*env.step(action)))
    assert disturbed == trace


@pytest.mark.parametrize("simulator", ["cyborg", "published"])
def test_one_env_plays_every_red_agent_like_an_env_of_its_own(simulator: str) -> None:
    actions = random_actions(2)
    env = Cage2Env("SleepAgent", simulator=simulator)
    for seed, red_agent in enumerate([*RED_AGENTS, *reversed(RED_AGENTS)]):
        own = Cage2Env(red_agent, simulator=simulator)
        trace = play(env, seed, actions, red_agent)
        assert trace == play(own, seed, actions)
        assert {RED_AGENTS[info["red_agent"]] for *_, info in trace} == {red_agent}
    assert RED_AGENTS[play(env, 0, actions)[0][1]["red_agent"]] == "SleepAgent"


@pytest.mark.parametrize("simulator", ["cyborg", "published", "compiled"])
def test_what_both_sides_did_is_told(simulator: str) -> None:
    env = Cage2Env("B_lineAgent", simulator=simulator)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.describe()
    *_, info = env.reset(seed=0)
    assert (info["blue_action"], info["red_action"], info["red_target"]) == (-1, -1, -1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.describe()
    restore = ACTION_NAMES.index("Restore User2")
    *_, info = env.step(restore)
    told = env.describe(truth=True)
    assert info["blue_action"] == restore
    assert (told["blue_action"], told["blue_success"]) == ("Restore User2", "TRUE")
    assert SUCCESSES[info["blue_success"]] == "TRUE"
    assert RED_ACTIONS[info["red_action"]] == "DiscoverRemoteSystems"
    assert RED_TARGETS[info["red_target"]] == "User"
    assert told["red_action"].startswith("DiscoverRemoteSystems 10.0.")
    assert told["red_success"] == SUCCESSES[info["red_success"]] == "TRUE"
    env.step(0)
    assert (env.describe()["blue_action"], env.describe()["blue_success"]) == ("Sleep", "UNKNOWN")
    # Femitter runs on Windows only.
    env.step(ACTION_NAMES.index("DecoyFemitter Op_Server0"))
    assert env.describe()["blue_success"] == "FALSE"


def test_the_words_tell_no_more_than_blue_saw() -> None:
    """Whatever Red did, steps that look the same to Blue are told in the same words."""
    words: dict[Any, set[str]] = {}
    truths = set()
    envs = {red: Cage2Env(red, simulator="compiled") for red in RED_AGENTS}
    for red, env in envs.items():
        for seed in range(12):
            env.reset(seed=seed)
            for _ in range(20):
                obs, *_, info = env.step(0)
                seen = tuple(obs), tuple(info["suspicious_hosts"]), int(info["blue_success"])
                words.setdefault(seen, set()).add(json.dumps(env.describe()))
                truths.add((red, env.describe(truth=True)["red_agent"]))
    assert truths == {(red, red) for red in RED_AGENTS}
    assert len(words) > 20
    assert {len(told) for told in words.values()} == {1}


@pytest.mark.parametrize("simulator", ["cyborg", "compiled"])
def test_the_words_tell_what_blue_saw(simulator: str) -> None:
    env = Cage2Env("B_lineAgent", simulator=simulator)
    env.reset(seed=0)
    told = set()
    for step in range(30):
        obs, *_ = env.step(ACTION_NAMES.index("Analyse User1") if step % 2 else 0)
        hosts = env.describe()["hosts"]
        for host, bits in zip(HOSTS, obs.reshape(13, 4).astype(int).tolist(), strict=True):
            activity, compromise = hosts[host]
            assert activity == ["nothing", "scan", "", "exploit"][2 * bits[1] + bits[0]]
            assert compromise == ["clean", "unknown", "user", "privileged"][2 * bits[3] + bits[2]]
            told.add((activity, compromise))
    assert len(told) > 3


SB3_IS_NOT_LOADED = """
import sys
import workflow_rl.cage2
import csle_cyborg.agents  # As a user's red agent does.
assert not {"torch", "stable_baselines3"} & set(sys.modules), "csle-cyborg loaded too much"
from workflow_rl.cage2.env.cage2_env import Cage2Env
for simulator in ("cyborg", "published"):
    env = Cage2Env(simulator=simulator)
    env.reset(seed=0)
    env.step(0)
assert not {"torch", "stable_baselines3"} & set(sys.modules), "loaded too much"
import stable_baselines3
assert stable_baselines3.PPO == "the real one"
"""
SB3_STAYS = """
import sys, stable_baselines3
from workflow_rl.cage2.env.cage2_env import Cage2Env
Cage2Env(simulator="published")
assert sys.modules["stable_baselines3"] is stable_baselines3
import csle_cyborg.agents.simple_agents.blue_load_agent as blue_load_agent
assert blue_load_agent.PPO == "the real one"
"""


@pytest.mark.parametrize("program", [SB3_IS_NOT_LOADED, SB3_STAYS], ids=["not loaded", "stays"])
def test_stable_baselines3_is_the_users(program: str, tmp_path: Path) -> None:
    (tmp_path / "stable_baselines3.py").write_text("PPO = 'the real one'\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)


def test_it_says_that_it_has_no_pictures_and_what_there_is_instead() -> None:
    env = Cage2Env()
    with pytest.raises(NotImplementedError, match="workflow-rl replay"):
        env.render()
    with pytest.raises(TypeError, match=r"render_mode='ansi': .*workflow-rl replay"):
        Cage2Env(render_mode="ansi")
