import copy
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage2.compiled.doors import door
from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.cage2.attackers import (
    BLine,
    Meander,
    OneByOne,
    PolicyAttacker,
    Seen,
    Stubborn,
)
from workflow_rl.cage2.compiled import generator
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.episode_random import EpisodeRandom
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.compiled.state import STATE
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_ACTION_NAMES, RED_OBS_SIZE

STEPS = 100


class Gambler:
    """Attacks with any possible action; keeps what it was shown."""

    def begin(self, random: random.Random) -> None:
        self.random = random
        self.shown: list[dict[str, Any]] = []

    def act(self, seen: Seen) -> str:
        self.shown.append(seen.observation)
        return self.random.choice(seen.possible)


class Steady:
    """An actor that takes the last possible action, and counts its calls."""

    policy_version = 0

    def __init__(self) -> None:
        self.seeds: dict[int, int] = {}
        self.n_calls = 0

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self.seeds[env] = seed

    def act(self, obs: Any, envs: Sequence[int] = (0,)) -> Choice:
        self.n_calls += 1
        masks = obs[:, RED_OBS_SIZE:]
        last = masks.shape[1] - 1 - masks[:, ::-1].argmax(axis=1)
        return last, np.zeros(len(obs), np.float32)


def blue_actions(n: int, seed: int = 0) -> np.ndarray:
    """Actions `[STEPS, n]` of blues that sleep, draw any action, or seldom act."""
    draws = np.random.default_rng(seed)
    actions = draws.integers(len(ACTION_NAMES), size=(STEPS, n))
    acts = np.array([0.0, 1.0, 0.3])[np.arange(n) // 2 % 3]
    return np.where(draws.random((STEPS, n)) < acts, actions, 0)


def assert_cyborgs_attackers_are_equal(n: int) -> None:
    """In n episodes of both, as the simulator's own, which parity compares with CybORG."""
    outside = RedSimulator(n, STEPS, {"BLine": OneByOne(BLine), "Meander": OneByOne(Meander)})
    built_in = BatchedSimulator(n, STEPS)
    seeds, kinds = np.arange(n), np.arange(n) % 2
    outside.reset(seeds, OUTSIDE + kinds)
    built_in.reset(seeds, kinds)
    for actions in blue_actions(n):
        outside.step(actions)
        built_in.step(actions)
        assert np.array_equal(outside.obs, built_in.obs)
        assert np.array_equal(outside.rewards, built_in.rewards)
        assert np.array_equal(outside.facts, built_in.facts)
        # The words of the generator: as many draws, in the same order.
        assert np.array_equal(outside.states["mt_index"], built_in.states["mt_index"])
        assert np.array_equal(outside.states["mt"], built_in.states["mt"])


def test_b_line_and_meander_are_cyborgs() -> None:
    assert_cyborgs_attackers_are_equal(40)


@pytest.mark.slow
def test_b_line_and_meander_are_cyborgs_in_a_thousand_episodes_each() -> None:
    assert_cyborgs_attackers_are_equal(2000)


def test_an_episodes_generator_draws_as_pythons() -> None:
    states, python = np.zeros(3, STATE), random.Random(77)
    door(generator.seed)(states[2], 77)
    drawn = EpisodeRandom(states, 2)
    for _ in range(20):
        for name, arguments in (
            ("random", ()),
            ("getrandbits", (70,)),
            ("choice", ("abcdefg",)),
            ("randrange", (3, 60000)),
            ("sample", (range(30), 5)),
            ("choices", ("abc", [3, 1, 2])),
            ("gauss", (0, 1)),
        ):
            assert getattr(drawn, name)(*arguments) == getattr(python, name)(*arguments), name
        mine, theirs = list(range(13)), list(range(13))
        drawn.shuffle(mine)
        python.shuffle(theirs)
        assert mine == theirs


def test_an_attacker_sees_what_cyborg_shows() -> None:
    gambler = Gambler()
    simulator = RedSimulator(1, STEPS, {"Gambler": OneByOne(lambda: gambler)})
    simulator.reset(1, OUTSIDE)
    for _ in range(STEPS):
        simulator.step(0)
    first, *others = gambler.shown
    assert first["success"] is None
    assert first["User0"]["System info"]["Hostname"] == "User0"
    assert {shown["success"] for shown in others} == {True, False, None}
    assert any("Sessions" in host for shown in others for host in list(shown.values())[1:])


def test_several_attackers_play_in_one_batch() -> None:
    """Each as it plays alone: two written ones, a trained one, and one of the simulator's own."""
    n, steady = 8, Steady()
    kinds = np.arange(n) % 4
    attackers = {
        "Meander": OneByOne(Meander),
        "policy": PolicyAttacker(steady),
        "Gambler": OneByOne(Gambler),
    }
    together, seeds = RedSimulator(n, STEPS, attackers), np.arange(n) + 50
    assert together.red_agents[OUTSIDE:] == tuple(attackers)
    red_agents = np.where(kinds == 3, 0, OUTSIDE + kinds)
    together.reset(seeds, red_agents)
    alone = []
    for env in range(n):
        alone.append(RedSimulator(1, STEPS, copy.deepcopy(attackers)))
        alone[-1].reset(seeds[env], red_agents[env])
    for actions in blue_actions(n, seed=1):
        obs, rewards = together.step(actions)
        for env, simulator in enumerate(alone):
            obs_alone, reward = simulator.step(actions[env])
            assert np.array_equal(obs[env], obs_alone[0])
            assert rewards[env] == reward[0]
    # One call a step for all envs of a policy.
    assert steady.n_calls == STEPS
    assert steady.seeds == {env: seeds[env] for env in range(n) if kinds[env] == 1}


def test_envs_that_are_not_chosen_stay_as_they_are() -> None:
    simulator = RedSimulator(4, STEPS, {"Gambler": OneByOne(Gambler)})
    simulator.reset(np.arange(4), OUTSIDE)
    before = simulator.states.view(np.uint8).copy()
    simulator.step(0, np.array([True, False, True, False]))
    changed = (simulator.states.view(np.uint8) != before).reshape(4, -1).any(axis=1)
    assert changed.tolist() == [True, False, True, False]


def test_a_snapshot_and_a_copy_hold_the_attackers() -> None:
    simulator = CompiledSimulator(STEPS, {"Gambler": OneByOne(Gambler)})
    other = CompiledSimulator(STEPS, {"Gambler": OneByOne(Gambler)})
    for played in (simulator, other):
        played.reset(3, "Gambler")
        played.step(0)
    for _ in range(20):
        simulator.step(0)
    snapshot, copied = simulator.save(), copy.deepcopy(simulator)
    rest = [simulator.step(0)[1] for _ in range(40)]
    other.load(snapshot)
    simulator.load(snapshot)
    for again in (copied, other, simulator):
        assert [again.step(0)[1] for _ in range(40)] == rest
    assert min(rest) < 0
    for others in (
        CompiledSimulator(STEPS, {"Steady": OneByOne(Steady)}),
        CompiledSimulator(STEPS),
    ):
        with pytest.raises(ValueError, match="other red agents"):
            others.load(snapshot)
        with pytest.raises(ValueError, match="other red agents"):
            simulator.load(others.save())


@pytest.mark.parametrize("action", ["Sleep User1", -1, 44, 1.5, None])
def test_what_is_no_action_is_refused(action: Any) -> None:
    class Wrong(Gambler):
        def act(self, seen: Seen) -> Any:
            return action

    simulator = RedSimulator(1, STEPS, {"Wrong": OneByOne(Wrong)})
    simulator.reset(0, OUTSIDE)
    with pytest.raises(ValueError, match="Red's action="):
        simulator.step(0)


def test_what_red_may_do_is_told_by_name() -> None:
    seen: list[Seen] = []

    class Looks(Gambler):
        def act(self, seen_now: Seen) -> str:
            seen.append(seen_now)
            return "DiscoverRemoteSystems User"

    simulator = RedSimulator(1, STEPS, {"Looks": OneByOne(Looks)})
    simulator.reset(1097, OUTSIDE)
    simulator.step(0)
    assert seen[0].possible[:2] == ["Sleep", "DiscoverRemoteSystems User"]
    assert seen[0].can("PrivilegeEscalate User0")
    assert not seen[0].can("DiscoverNetworkServices User1")
    assert sorted(seen[0].addresses) == sorted(HOSTS)
    # In this episode another host has the address that a process of the first host names.
    assert seen[0].addresses != HOSTS


def test_a_stubborn_attacker_tries_all_and_repeats_what_it_likes() -> None:
    row = np.ones(RED_OBS_SIZE + len(RED_ACTION_NAMES), np.uint8)
    row[-1] = 0  # The last action is not possible.
    played, seen = [], Seen(row, RED_ACTION_NAMES, None, 0)
    for seed in (1, 1, 2):
        attacker = Stubborn()
        attacker.begin(random.Random(seed))
        played.append([attacker.act(seen) for _ in range(600)])
    assert played[0] == played[1] != played[2]
    assert set(played[0]) == set(range(1, len(RED_ACTION_NAMES) - 1))
    later = played[0][300:]
    assert sum(a == b for a, b in itertools.pairwise(later)) > 60  # By chance: 7.
