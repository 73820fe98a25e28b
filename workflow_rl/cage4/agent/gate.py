"""What a team does against a red that hides: a gate, the chance of hidden sessions, and a rule.

A mail opens a session for red without a trace, and an Impact shows nothing either. Red needs no
more to cost blue up to 10 in every second step. The challenge's red agent shows itself: it exploits
hosts all the time. So a gate is open while the team sees hardly an exploit. The agents then restore
hosts by the chance that red hides there, and probe with decoys. A new process has a PID of 1 to 9
above the highest on its host, so the PIDs of two decoys tell how likely a process of red's came
between. This module needs NumPy alone, because submissions contain a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import (
    DECOY,
    IS_USER,
    N_AGENTS,
    OWNERS,
    RESTORE,
    Belief,
    Bits,
    Joint,
)
from workflow_rl.cage4.agent.raw_record import DECEIVED, NUMBERS, TAKEN
from workflow_rl.cage4.agent.rules import Floats, most_urgent, remaining
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import IMPACT_COST, MESSAGE_BITS, OBS_SIZES

SPAN = 100
"""From step SPAN on, the gate is open while the team has seen fewer than one exploit in SPAN steps,
on average over the episode, or none in the last SPAN steps. Of the challenge's red agent it sees
about ten."""
MOST_APART = 9
"""How much the PID of a new process can be above the highest one of its host."""
LAST = 8
"""A Restore does not pay in the last steps."""
MAILS = 1 / 300
"""How often a mail opens a session on a user's host, in a step."""


HIGH, MIDDLE, LOW, OF_SEVERAL = 0.03, 0.05, 0.1, 0.3
"""A host is restored from this chance of a hidden session on: where an Impact in the host's zone
costs 10, 3, or less; and where the agent has three zones, in which mails come faster than the agent
restores."""
_ZONES = np.array(
    [scenario4.ZONES.index(scenario4.AGENT_ZONES[agent][i]) for agent, i in scenario4.OWN_ZONES]
)
PRICE = -np.array(scenario4.REWARDS)[:, _ZONES, IMPACT_COST].astype(np.float64)
"""What an Impact costs, by phase and own zone `[3, 7]`."""
_OF_ONE = (scenario4.N_ZONES_OF_AGENT == 1)[OWNERS][:, None]
_HEARD_IN = scenario4.FIRST_OBS + np.array(OBS_SIZES) - (N_AGENTS - 1) * MESSAGE_BITS
# Agent 1 hears agent 0 first, and agent 0 hears the others in order.
_BIT_IN = np.array([_HEARD_IN[1], *(_HEARD_IN[0] + MESSAGE_BITS * np.arange(N_AGENTS - 1))])
"""Where an observation of the team has the first bit of each agent's message `[5]`."""
_GAPS = np.arange(2 * MOST_APART + 1)
_ALONE = np.where((_GAPS >= 1) & (_GAPS <= MOST_APART), 1 / MOST_APART, 0)
_BEHIND_ANOTHER = np.maximum(0, MOST_APART - np.abs(_GAPS - MOST_APART - 1)) / MOST_APART**2
"""How likely a decoy's PID is so much above that of the decoy before it, by the difference: if no
process came between, and if one did."""


class Gate:
    """What the agents have told each other of exploits in N envs, and where red may hide.

    is_open: bool `[N]`, whether red seems to hide. Every agent knows it from the messages of all.
    chance: `[N, 7, 16]`, that a session hides on a host.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief, hosts = belief, belief.exists.shape
        self.is_open = np.zeros(hosts[0], np.bool_)
        self.chance, self._since = np.zeros((2, *hosts))
        self._pid = np.zeros(hosts, np.int64)
        self._heard = np.zeros((hosts[0], SPAN), np.int64)
        self._n_heard = np.zeros(hosts[0], np.int64)
        self._exploited = np.zeros((hosts[0], N_AGENTS), np.bool_)

    def begin(self, envs: Any) -> None:
        """Begin episodes in M envs."""
        for numbers in (self.is_open, self.chance, self._since, self._pid):
            numbers[envs] = 0
        self._heard[envs] = self._n_heard[envs] = 0
        self._exploited[envs] = False

    def see(self, envs: Any, obs: Any, raw: NDArray[Any]) -> None:
        """Read the messages, exploits and decoys of a step. obs: `[M, 578]`. raw: `RAW` `[M]`."""
        step = self._belief.step[envs]
        # An agent that is not heard counts as one that sees an exploit.
        self._heard[envs, step % SPAN] = (obs[:, _BIT_IN] <= 0).sum(axis=1)
        self._n_heard[envs] += self._heard[envs, step % SPAN]
        hides = (self._n_heard[envs] * SPAN < step) | ~self._heard[envs].any(axis=1)
        self.is_open[envs] = hides & (step >= SPAN)
        shells = raw["n_shells"][:, NUMBERS] > 0
        ways = np.bitwise_or.reduce(raw["seen"][:, NUMBERS], axis=3)
        exploited = (shells | (ways & (TAKEN | DECEIVED) > 0)).any(axis=2)
        self._exploited[envs] = np.logical_or.reduceat(
            exploited, scenario4.FIRST_ZONE_OF_AGENT, axis=1
        )
        is_held = shells | self._belief.root[envs] | self._belief.source[envs]
        self._weigh(envs, is_held, raw["decoy_pid"][:, NUMBERS])

    def _weigh(self, envs: Any, is_held: Bits, shown: NDArray[Any]) -> None:
        """Update the chances. is_held: `[M, 7, 16]`. shown: the PIDs of new decoys, or 0."""
        restored = self._belief.restored[envs] == self._belief.step[envs][:, None, None]
        mails = np.where(self._belief.exists[envs] & IS_USER, MAILS, 0.0)
        since = either(self._since[envs], mails)
        pid, new = self._pid[envs], shown.astype(np.int64)
        gap = np.clip(new - pid, 0, 2 * MOST_APART)
        with_one, alone = since * _BEHIND_ANOTHER[gap], (1 - since) * _ALONE[gap]
        found = np.divide(with_one, with_one + alone, out=np.ones_like(since), where=alone > 0)
        probed = new > 0
        found = np.where(probed & (pid > 0), found, since)
        before = np.where(is_held, 1.0, self.chance[envs])
        self.chance[envs] = np.where(restored, 0.0, np.where(probed, either(before, found), before))
        self._since[envs] = np.where(restored | probed, 0.0, since)
        self._pid[envs] = np.where(probed, new, np.where(restored, 0, pid))

    def hidden(self, envs: Any) -> Floats:
        """Return the chance `[M, 7, 16]` that a session hides on a host."""
        return either(self.chance[envs], self._since[envs])

    def says(self, envs: Any) -> Bits:
        """Return the messages `[M, 5, 8]`: the first bit says that the agent saw no exploit."""
        said = np.zeros((*self._exploited[envs].shape, MESSAGE_BITS), np.bool_)
        said[..., 0] = ~self._exploited[envs]
        return said

    def instead(self, envs: Any, taken: Joint) -> Joint:
        """Return what the agents do `[M, 5]`, of which `taken` is what they do by themselves."""
        is_open = self.is_open[envs] & (remaining(self._belief, envs) > LAST)
        if not is_open.any():
            return taken
        step = self._belief.step[envs]
        phase = np.searchsorted(np.array(scenario4.PHASE_STARTS[1:]), step, side="right")
        price = np.maximum(PRICE[phase], 0.0)[:, :, None]
        least = np.select([~_OF_ONE, price >= 10, price >= 3], [OF_SEVERAL, HIGH, MIDDLE], LOW)
        chance = self.hidden(envs)
        exists = self._belief.exists[envs]
        restores = exists & (chance > least) & (price > 0)
        worth = chance * price
        # Who restores nothing probes where the chance is highest.
        kinds = np.where(restores, RESTORE, np.where(exists & IS_USER, DECOY, 0))
        ruled = most_urgent(kinds, np.where(restores, 100 + worth, np.where(exists, worth, -1)))
        return np.where(is_open[:, None], ruled, taken)


def either(one: Floats, other: Floats | NDArray[Any]) -> Floats:
    """Return the chance that one or the other happened."""
    chance: Floats = 1 - (1 - one) * (1 - other)
    return chance
