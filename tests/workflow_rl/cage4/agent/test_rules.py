from __future__ import annotations

import numpy as np

from workflow_rl.cage4.agent.belief import Belief
from workflow_rl.cage4.agent.rules import BatchedRuleTeam, RuleTeam
from workflow_rl.cage4.compiled.network import PLACES, RED_OF_ZONE
from workflow_rl.cage4.compiled.observe import SHOWN
from workflow_rl.cage4.compiled.simulator import BatchedSimulator, masks_by_agent, observations_of
from workflow_rl.cage4.scenario4 import (
    ACTIONS,
    AGENT_HOSTS,
    AGENT_ZONES,
    FIRST_ACTION,
    N_ACTIONS,
    OBS_SIZES,
    OWN_ZONES,
    ZONES,
)
from workflow_rl.cage4.scoring.protocol import Author, play_protocol

SEEDS = range(400, 412)


def masks() -> np.ndarray:
    return np.ones((1, sum(N_ACTIONS)), np.bool_)


def test_many_episodes_at_once_are_played_as_one_and_well() -> None:
    simulator, team = BatchedSimulator(len(SEEDS)), BatchedRuleTeam()
    observations = simulator.reset(list(SEEDS))
    team.reset(simulator.masks)
    alone = RuleTeam()
    alone.reset(masks_by_agent(simulator.masks[3]), 0)
    total = np.zeros(len(SEEDS))
    for _ in range(498):
        actions = team.act(observations)
        assert alone.act(observations_of(observations[3]))[0] == actions[3].tolist()
        observations, rewards, _ = simulator.step(actions)
        total += rewards.sum(1)
    assert total.mean() > -260


def test_a_red_agent_of_a_zone_holds_hosts_that_the_belief_names() -> None:
    """Nearly every root session is on a host that had an event or may be the first foothold."""
    simulator, team = BatchedSimulator(len(SEEDS)), BatchedRuleTeam()
    observations = simulator.reset(list(SEEDS))
    team.reset(simulator.masks)
    zones = [ZONES.index(AGENT_ZONES[agent][i]) for agent, i in OWN_ZONES]
    hosts = np.array(zones)[:, None] * PLACES + SHOWN
    reds = np.repeat(RED_OF_ZONE[zones][:, None], len(SHOWN), axis=1)
    known = Belief(simulator.masks)
    n_held, n_named = 0, 0
    # Nobody acts, so that no conclusion is forgotten.
    for _ in range(80):
        known.update(observations)
        state = simulator.states["host_state"][:, reds, hosts]
        held = np.isin(state, (4, 5, 6, 7)) & (simulator.states["red_sessions"][:, hosts] != 0)
        named = known.exploited | known.ever_doubtful | known.may_be_first
        n_held += held.sum()
        n_named += (held & named).sum()
        observations, _, _ = simulator.step([[49, 49, 49, 49, 145]] * len(SEEDS))
    assert n_held > 500
    assert n_named / n_held > 0.85


def test_an_agent_acts_on_its_own_observations_alone() -> None:
    draw = np.random.default_rng(1)
    team, other = BatchedRuleTeam(), BatchedRuleTeam()
    team.reset(masks())
    other.reset(masks())
    for _ in range(60):
        observations = (draw.random((1, sum(OBS_SIZES))) < 0.05).astype(np.int8)
        changed = (draw.random((1, sum(OBS_SIZES))) < 0.5).astype(np.int8)
        start, end = sum(OBS_SIZES[:2]), sum(OBS_SIZES[:3])
        changed[:, start:end] = observations[:, start:end]
        # Messages are not read.
        changed[:, end - 32 : end] ^= 1
        assert team.act(observations)[0, 2] == other.act(changed)[0, 2]


def test_what_is_sure_comes_before_what_is_doubtful() -> None:
    team = BatchedRuleTeam()
    team.reset(masks())
    observations = np.zeros((1, sum(OBS_SIZES)), np.int8)
    observations[0, 28 + 6] = observations[0, 28 + 9] = observations[0, 28 + 16 + 9] = 1
    taken = [int(team.act(observations)[0, 0])]
    observations[:] = 0
    taken += [int(team.act(observations)[0, 0]) for _ in range(9)]
    words = [(ACTIONS[0][i].kind, ACTIONS[0][i].host) for i in taken]
    assert words[0] == ("Restore", AGENT_HOSTS[0][9])
    assert [kind for kind, _ in words[1:5]] == ["Sleep"] * 4
    assert words[5] == ("Remove", AGENT_HOSTS[0][6])
    assert [kind for kind, _ in words[6:]] == ["Sleep"] * 4
    assert FIRST_ACTION[1] == N_ACTIONS[0]


def test_both_simulators_give_the_team_the_same_returns(checkout: object) -> None:
    author = Author("rules", "us", "rules")
    totals = [
        play_protocol(RuleTeam(), author, name, 2, 3, steps=60).totals
        for name in ("compiled", "cyborg")
    ]
    assert totals[0] == totals[1]
