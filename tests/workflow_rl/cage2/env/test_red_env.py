import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from csle_cyborg.agents.simple_agents.sleep_agent import SleepAgent
from gymnasium.utils.env_checker import check_env

from tests.workflow_rl.cage2.actors import Reciting
from workflow_rl.cage2 import Cage2RedEnv
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import (
    ACTION_NAMES,
    FACTS_OF_A_HOST,
    HOSTS,
    RED_ACTION_NAMES,
    SUBNETS,
)

SLEEP = RED_ACTION_NAMES.index("Sleep")


class Told(SleepAgent):
    """A red agent of CybORG's that takes the actions it is told."""

    actions: Any = ()

    def end_episode(self) -> None:
        self.made = 0

    def get_action(self, observation: Any, action_space: Any) -> Any:
        self.made += 1
        return Told.actions[self.made - 1]


def attack(env: Cage2RedEnv, seed: int, steps: int) -> tuple[list[int], list[float], list[Any]]:
    """Random possible actions: what they were, and what came of them."""
    generator = np.random.default_rng(seed)
    obs, info = env.reset(seed=seed)
    made, rewards, seen = [], [], [obs]
    for _ in range(steps):
        made.append(int(generator.choice(np.flatnonzero(info["action_mask"]))))
        obs, reward, terminated, _, info = env.step(made[-1])
        assert not terminated
        rewards.append(reward)
        seen.append(obs)
    return made, rewards, seen


@pytest.mark.filterwarnings("ignore:.*render modes.*")
def test_the_env_keeps_gymnasiums_contract() -> None:
    check_env(Cage2RedEnv(max_steps=30))


@pytest.mark.parametrize("seed", range(4))
def test_actions_by_index_do_what_they_do_in_csle_cyborg_as_published(seed: int) -> None:
    blue = np.random.default_rng(seed + 50).integers(len(ACTION_NAMES), size=40).tolist()
    reciting = Reciting(blue)
    env = Cage2RedEnv(reciting, max_steps=40)
    made, rewards, _ = attack(env, seed, 40)
    stock = Cage2Env(Told, max_steps=40, simulator="published")
    obs, _ = stock.reset(seed=seed)
    Told.actions = [published(stock, RED_ACTION_NAMES[index]) for index in made]
    for action, reward, seen in zip(blue, rewards, reciting.seen, strict=True):
        assert seen.tolist() == obs.tolist()
        obs, of_blue, *_ = stock.step(action)
        assert of_blue == -reward


def published(env: Cage2Env, name: str) -> Any:
    """An action of csle-cyborg's, made by hand."""
    import csle_cyborg.shared.actions as actions

    state = env._simulator._controller.state  # type: ignore[attr-defined]
    addresses = {host: address for address, host in state.ip_addresses.items()}
    kind, _, target = name.partition(" ")
    if kind == "Sleep":
        return actions.Sleep()
    if kind == "DiscoverRemoteSystems":
        subnet = state.subnet_name_to_cidr[target]
        return actions.DiscoverRemoteSystems(session=0, agent="Red", subnet=subnet)
    if kind in ("PrivilegeEscalate", "Impact"):
        return getattr(actions, kind)(session=0, agent="Red", hostname=target)
    return getattr(actions, kind)(session=0, agent="Red", ip_address=addresses[target])


def test_red_learns_what_it_is_shown() -> None:
    env = Cage2RedEnv()
    obs, info = env.reset(seed=0)
    assert shown(obs)["User0"] == ["address known", "name known", "user session", "root session"]
    assert possible(info) >= {"Sleep", "DiscoverRemoteSystems User", "PrivilegeEscalate User0"}
    assert "ExploitRemoteService User1" not in possible(info)
    for action in ("DiscoverRemoteSystems User", "DiscoverNetworkServices User1"):
        obs, *_, info = env.step(RED_ACTION_NAMES.index(action))
    assert shown(obs)["User1"] == ["address known", "ports known"]
    for _ in range(5):
        obs, *_, info = env.step(RED_ACTION_NAMES.index("ExploitRemoteService User1"))
    assert "user session" in shown(obs)["User1"]
    obs, reward, *_ = env.step(RED_ACTION_NAMES.index("PrivilegeEscalate User1"))
    assert "root session" in shown(obs)["User1"]
    assert reward > 0
    told = env.describe()
    assert told["red_action"].startswith("PrivilegeEscalate User1")
    assert told.keys() == {"red_action", "red_success"}  # Red does not see what Blue did.
    assert env.describe(truth=True) == told | {"blue_action": "Sleep"}


def shown(obs: np.ndarray) -> dict[str, list[str]]:
    facts = obs[len(SUBNETS) : -2].reshape(len(HOSTS), len(FACTS_OF_A_HOST))
    return {
        host: [name for name, holds in zip(FACTS_OF_A_HOST, row, strict=True) if holds]
        for host, row in zip(HOSTS, facts, strict=True)
    }


def possible(info: dict[str, Any]) -> set[str]:
    return {RED_ACTION_NAMES[index] for index in np.flatnonzero(info["action_mask"])}


def test_the_seed_decides_and_a_copy_goes_on() -> None:
    env = Cage2RedEnv(max_steps=60)
    first, again = attack(env, 3, 60), attack(Cage2RedEnv(max_steps=60), 3, 60)
    assert first[:2] == again[:2]
    env.reset(seed=1)
    env.step(1)
    twin = copy.deepcopy(env)
    for action in (3, 4, 5, 6):
        assert env.step(action)[0].tolist() == twin.step(action)[0].tolist()


def test_an_episode_is_truncated() -> None:
    env = Cage2RedEnv(max_steps=2)
    env.reset(seed=0)
    assert env.step(SLEEP)[3] is False
    assert env.step(SLEEP)[3] is True
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(SLEEP)
    for action in (44, 45, -1):
        with pytest.raises(ValueError, match="from 0 to 43"):
            env.step(action)


@pytest.mark.parametrize("action", [-1, len(ACTION_NAMES)])
def test_an_action_that_blue_does_not_have_is_refused(action: int) -> None:
    env = Cage2RedEnv(Reciting([action]))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"the action of blue={action}"):
        env.step(SLEEP)


def test_there_is_nothing_to_describe_before_a_step() -> None:
    env = Cage2RedEnv()
    for _ in range(2):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.describe()
        env.reset(seed=0)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.describe()
        env.step(SLEEP)
        assert env.describe()["red_action"] == "Sleep"
        env.reset(seed=1)
