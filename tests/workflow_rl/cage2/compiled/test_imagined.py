"""Imagined episodes against those of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workflow_rl.cage2.compiled.doors import door
from workflow_rl.cage2.compiled.blue_belief import (
    BELIEF,
    N_HYPOTHESES,
    N_SHOWN,
    WORTH_A_DECOY,
    begin_beliefs,
)
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.imagined import REST, drawn_bit, imagine_steps
from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS
from workflow_rl.cage2.compiled.simulator import BatchedSimulator
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.selection import ATTACKERS

# Half a minute to compile.
pytestmark = pytest.mark.slow

N = 1500


def some_actions(random: np.random.Generator, n_steps: int) -> np.ndarray:
    """Of every kind, [n_steps, N]; a third are decoys, while Red is among the users."""
    kinds = ("Analyse", "Remove", "Restore", "Decoy")
    useful = [n for n, name in enumerate(ACTION_NAMES) if name.startswith(kinds)]
    decoys = [
        n for n in useful if ACTION_NAMES[n].startswith("Decoy") and "User" in ACTION_NAMES[n]
    ]
    is_decoy = random.random((n_steps, N)) < 1 / 3
    return np.where(
        is_decoy, random.choice(decoys, is_decoy.shape), random.choice(useful, is_decoy.shape)
    )


def imagined(red_agent: int, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rewards [n_steps, N], and how often each of the 52 bits was 1, [n_steps, 52]."""
    beliefs, hypotheses = np.zeros(N, BELIEF), np.zeros((N, N_HYPOTHESES), HYPOTHESIS)
    shown, rest = np.empty((N, N_SHOWN), np.uint8), np.zeros(N, REST)
    none = np.zeros((N, 52), np.uint8)
    begin_beliefs(beliefs, SCENARIO2.record, WORTH_A_DECOY, np.arange(N), hypotheses, none, shown)
    truths = hypotheses[:, red_agent].copy()
    rest["ot_running"][:] = True
    rest["ot_can_stop"] = True
    random = np.random.default_rng(1)
    rewards, bits = np.empty(actions.shape), []
    for t, taken in enumerate(actions):
        uniform = random.random((N, 2))
        imagine_steps(
            truths, SCENARIO2.record, beliefs, hypotheses, rest, taken, uniform, rewards[t], shown
        )
        bits.append(shown[:, :52].mean(axis=0))
    return rewards, np.array(bits)


def simulated(red_agent: int, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of the simulator."""
    simulator = BatchedSimulator(N)
    simulator.reset(np.arange(N), red_agent)
    rewards, bits = np.empty(actions.shape), []
    for t, taken in enumerate(actions):
        obs, rewards[t] = simulator.step(taken)
        bits.append(obs.mean(axis=0))
    return rewards, np.array(bits)


@pytest.mark.parametrize("red_agent", range(len(ATTACKERS)), ids=ATTACKERS)
def test_they_are_as_the_simulators(red_agent: int) -> None:
    """Means over many episodes: rewards of every ten steps, and how often each bit is 1."""
    actions = some_actions(np.random.default_rng(0), 60)
    ours, our_bits = imagined(red_agent, actions)
    theirs, their_bits = simulated(red_agent, actions)
    for start in range(0, 60, 10):
        one, other = (rewards[start : start + 10].sum(axis=0) for rewards in (ours, theirs))
        error = np.sqrt((one.var() + other.var()) / N)
        assert abs(one.mean() - other.mean()) < 4.5 * error + 1e-9
    often = (our_bits + their_bits) / 2
    error = np.sqrt(2 * often * (1 - often) / N)
    assert (np.abs(our_bits - their_bits) < 4.5 * error + 2 / N).all()
    # Steps of an episode depend on each other: all of them together as one draw.
    often, steps = often.mean(axis=0), len(actions)
    error = np.sqrt(2 * often * (1 - often) / N)
    assert (np.abs((our_bits - their_bits).mean(axis=0)) < 4.5 * error + 2 / N / steps).all()


def test_a_draw_takes_each_bit_as_often() -> None:
    drawn = door(drawn_bit)
    assert [drawn(0b1010010, uniform) for uniform in (0, 0.3, 0.34, 0.6, 0.67, 0.99)] == [
        *(1, 1, 4, 4, 6, 6)
    ]
