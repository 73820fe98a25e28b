import copy
import inspect
import random
from collections.abc import Mapping
from random import choice
from typing import Any

import numpy as np
import pytest
from csle_cyborg.agents.simple_agents.b_line import B_lineAgent
from csle_cyborg.agents.simple_agents.base_agent import BaseAgent
from csle_cyborg.shared import enums
from csle_cyborg.shared.actions import Sleep

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.scenario2 import ACTION_NAMES


class WildRed(BaseAgent):
    """Takes any action, with any parameters that it knows, and often B_line's."""

    def __init__(self) -> None:
        self.guide = B_lineAgent()
        self.seen: list[str] = []

    def set_initial_values(self, action_space: Any, observation: Any) -> None:
        self.limits = dict(action_space), dict(observation)

    def train(self, results: Any) -> None:
        pass

    def end_episode(self) -> None:
        self.guide.end_episode()
        self.seen = []

    def get_action(self, observation: Mapping[str, Any], action_space: Mapping[str, Any]) -> Any:
        self.seen.append(repr((plain(observation), plain(action_space))))
        if random.random() < 0.6:
            try:
                return self.guide.get_action(observation, action_space)
            except LookupError:  # B_line expects the outcome of its own action.
                return Sleep()
        kind = choice([kind for kind, known in action_space["action"].items() if known])
        values: dict[str, Any] = {}
        for name in inspect.signature(kind).parameters:
            known = [value for value, is_known in action_space.get(name, {}).items() if is_known]
            if name == "session":
                values[name] = 0
            elif name == "priority":
                continue
            elif not known:
                return Sleep()
            else:
                values[name] = choice(known)
        return kind(**values)


def plain(value: Any) -> Any:
    """Without what differs between two imports of CybORG."""
    if isinstance(value, Mapping):
        return [(plain(key), plain(part)) for key, part in value.items()]
    if isinstance(value, list):
        return [plain(part) for part in value]
    return getattr(value, "__name__", None) or str(value)


class EnumRed(B_lineAgent):
    """Compares enums of csle-cyborg by identity."""

    def get_action(self, observation: Any, action_space: Any) -> Any:
        action = super().get_action(observation, action_space)
        self.failures = getattr(self, "failures", 0)
        self.failures += observation["success"] is enums.TrinaryEnum.FALSE
        return Sleep() if self.failures > 10 else action


class NoAction(B_lineAgent):
    def get_action(self, observation: Any, action_space: Any) -> Any:
        return "Sleep"


def shown(env: Cage2Env, n_steps: int) -> list[Any]:
    """The observations of steps in which Blue sleeps."""
    return [env.step(0)[0].tolist() for _ in range(n_steps)]


def trace(env: Cage2Env, seed: int, steps: int) -> list[Any]:
    """What an episode shows, up to an error of CybORG's."""
    actions = np.random.default_rng(seed).integers(len(ACTION_NAMES), size=steps)
    obs, info = env.reset(seed=seed)
    rows: list[Any] = [obs.tolist()]
    for action in actions:
        try:
            obs, reward, _, _, info = env.step(int(action))
        except (LookupError, AttributeError) as error:  # CybORG's own, for a careless attacker.
            return [*rows, repr(error)]
        rows.append((obs.tolist(), reward, {n: np.asarray(v).tolist() for n, v in info.items()}))
        rows.append(env.describe())
    return rows


@pytest.mark.parametrize("red_agent", [WildRed, EnumRed])
def test_an_own_red_agent_plays_as_with_csle_cyborg_as_published(red_agent: type) -> None:
    ours, stock = (Cage2Env(red_agent, simulator=name) for name in ("cyborg", "published"))
    before = random.getstate()
    for seed in range(6):
        assert trace(ours, seed, 60) == trace(stock, seed, 60)
        agents = [[*env._simulator._red_agents.values()] for env in (ours, stock)]  # type: ignore[attr-defined]
        seen = [getattr(agent, "seen", None) for (agent,) in agents]
        assert seen[0] == seen[1]
    assert random.getstate() == before
    assert ours.describe(truth=True)["red_agent"] == f"{__name__}:{red_agent.__name__}"


def test_copies_and_snapshots_go_on_alike() -> None:
    env = Cage2Env(WildRed)
    env.reset(seed=4)
    for _ in range(20):
        env.step(0)
    snapshot, twin = env.save_state(), copy.deepcopy(env)
    first = shown(env, 30)
    assert shown(twin, 30) == first
    env.load_state(snapshot)
    assert shown(env, 30) == first


def test_what_is_no_action_of_csle_cyborg_is_refused() -> None:
    env = Cage2Env(NoAction)
    env.reset(seed=0)
    with pytest.raises(TypeError, match=":NoAction chose 'Sleep'"):
        env.step(0)


def test_cyborg_plays_the_episodes_of_its_agents_for_the_compiled_simulator() -> None:
    ours, theirs = (Cage2Env(WildRed, 20, simulator) for simulator in ("compiled", "cyborg"))
    assert trace(ours, 2, 20) == trace(theirs, 2, 20)
    with pytest.raises(ValueError, match="WildRed acts as csle-cyborg's agents do, which compiled"):
        CompiledVectorEnv(2, red_agent=[WildRed, "SleepAgent"])


class NoRedAgent:
    """Does not derive from BaseAgent."""

    def get_action(self, observation: Any, action_space: Any) -> Any:
        return Sleep()


def test_what_is_no_red_agent_of_this_cyborg_is_refused() -> None:
    for simulator in ("cyborg", "published"):
        with pytest.raises(ValueError, match="NoRedAgent does not derive from BaseAgent of csle_c"):
            Cage2Env(NoRedAgent, simulator=simulator)
    with pytest.raises(ValueError, match=r"red_agent: tests.*:trace is no red agent: it needs"):
        Cage2Env(f"{__name__}:trace")


@pytest.mark.parametrize("simulator", ["cyborg", "published"])
def test_a_name_a_class_and_an_object_play_alike(simulator: str) -> None:
    given = (f"{__name__}:WildRed", WildRed, WildRed())
    by_name, by_class, by_object = (trace(Cage2Env(red, 30, simulator), 3, 30) for red in given)
    assert by_name == by_class == by_object
    assert not given[2].seen  # A copy plays.


def test_episodes_of_a_mixture_are_those_of_each_attacker() -> None:
    mixed = Cage2Env({"B_lineAgent": 1, WildRed: 1, EnumRed: 1}, 20)
    alone = {name: Cage2Env(name, 20) for name in ("B_lineAgent", WildRed, EnumRed)}
    drawn = set()
    for seed in range(12):
        traced = trace(mixed, seed, 20)
        name = mixed.describe(truth=True)["red_agent"]
        attacker = next(key for key in alone if str(key).rpartition(".")[2].rstrip("'>") in name)
        assert traced == trace(alone[attacker], seed, 20)
        drawn.add(attacker)
    assert drawn == set(alone)


def test_an_option_names_any_red_agent() -> None:
    env, ours, theirs = Cage2Env(WildRed, 20), Cage2Env(EnumRed, 20), Cage2Env(max_steps=20)
    for asked, alone in ((EnumRed, ours), (f"{__name__}:EnumRed", ours), ("B_lineAgent", theirs)):
        first, second = (
            chosen.reset(seed=1, options={"red_agent": asked}) for chosen in (env, alone)
        )
        assert first[1]["red_agent"] == second[1]["red_agent"]
        assert shown(env, 20) == shown(alone, 20)
    with pytest.raises(ValueError, match="red_agent: 'Nobody' is no red agent"):
        env.reset(options={"red_agent": "Nobody"})


def test_a_snapshot_of_a_red_agent_that_has_not_played_is_refused() -> None:
    ours, theirs, both = Cage2Env(WildRed), Cage2Env(), Cage2Env({WildRed: 1, "B_lineAgent": 1})
    for env in (ours, theirs):
        env.reset(seed=0)
        both.load_state(env.save_state())
        assert both.step(0)[0].tolist() == env.step(0)[0].tolist()
        assert both.describe(truth=True) == env.describe(truth=True)
    with pytest.raises(
        ValueError, match="red agent is one of CAGE-2's own, which this env has not"
    ):
        ours.load_state(theirs.save_state())
    with pytest.raises(ValueError, match=r"red agent is .*:WildRed, which this env has not played"):
        theirs.load_state(ours.save_state())
