"""How a team plays against a red that hides: a gate, the chance of hidden sessions, and a rule.

A phishing mail opens a session for red, and shows nothing to blue. An Impact shows nothing either.
With mails and Impacts, red can cost blue up to 10 in every second step. The challenge's red agent
does not hide, because it exploits hosts all the time. So the gate is open while the team sees few
exploits. While the gate is open, agents restore hosts on which red probably hides, and probe others
with decoys. The PID of a new process is 1 to 9 above the highest PID of its host. So the PIDs of
two decoys tell how likely red started a process between the two. This module needs NumPy alone,
because submissions contain a copy."""

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
"""The gate opens in step SPAN at the earliest. It is open while the episode has shown fewer than
one exploit in SPAN steps on average, or while the last SPAN steps showed none. The challenge's red
agent shows about ten in SPAN steps."""
MOST_APART = 9
"""How much the PID of a new process can be above the highest PID of its host."""
LAST = 8
"""The number of last steps in which a Restore does not pay."""
MAILS = 1 / 300
"""The chance that a mail opens a session on a user's host in one step."""
# A host is restored if the chance of a hidden session exceeds one of these limits. HIGH, MIDDLE and
# LOW are for zones in which an Impact costs 10, 3 or less. OF_SEVERAL is for the agent of three
# zones, because mails open sessions there faster than one agent restores hosts.
HIGH, MIDDLE, LOW, OF_SEVERAL = 0.03, 0.05, 0.1, 0.3
_ZONES = np.array(
    [scenario4.ZONES.index(scenario4.AGENT_ZONES[agent][i]) for agent, i in scenario4.OWN_ZONES]
)
PRICE = -np.array(scenario4.REWARDS)[:, _ZONES, IMPACT_COST].astype(np.float64)
"""What an Impact costs, by phase and own zone `[3, 7]`."""
_OF_ONE = (scenario4.N_ZONES_OF_AGENT == 1)[OWNERS][:, None]
_HEARD_IN = scenario4.FIRST_OBS + np.array(OBS_SIZES) - (N_AGENTS - 1) * MESSAGE_BITS
# The first message that agent 1 reads is agent 0's. Agent 0 reads the messages of 1 to 4 in order.
_BIT_IN = _HEARD_IN[0] + MESSAGE_BITS * np.arange(-1, N_AGENTS - 1)
_BIT_IN[0] = _HEARD_IN[1]
"""The index of the first bit of each agent's message in a row of observations, `[5]`."""
_GAPS = np.arange(2 * MOST_APART + 1)
_ALONE = np.where((_GAPS >= 1) & (_GAPS <= MOST_APART), 1 / MOST_APART, 0)
_BEHIND_ANOTHER = np.maximum(0, MOST_APART - np.abs(_GAPS - MOST_APART - 1)) / MOST_APART**2
# The likelihood of each gap between the PIDs of two successive decoys on a host. _ALONE: no process
# started between the decoys. _BEHIND_ANOTHER: one process started between the decoys.


class Gate:
    """The exploits that agents reported by messages in N envs, and where red may hide.

    is_open: bool `[N]`, whether red seems to hide. Each agent computes this from all messages.
    chance: `[N, 7, 16]`, the chance that a session hides on a host since before its last decoy."""

    def __init__(self, belief: Belief) -> None:
        self._belief = belief
        hosts = belief.exists.shape
        self.is_open = np.zeros(hosts[0], np.bool_)
        self.chance, self._since = np.zeros((2, *hosts))
        self._pid = np.zeros(hosts, np.int64)
        self._heard = np.zeros((hosts[0], SPAN), np.int64)
        self._n_heard = np.zeros(hosts[0], np.int64)
        self._exploited = np.zeros((hosts[0], N_AGENTS), np.bool_)

    def begin(self, envs: Any) -> None:
        for numbers in (self.is_open, self.chance, self._since, self._pid):
            numbers[envs] = 0
        self._heard[envs] = self._n_heard[envs] = 0
        self._exploited[envs] = False

    def see(self, envs: Any, obs: Any, raw: NDArray[Any]) -> None:
        """Read the messages, exploits and decoys of a step. obs: `[M, 578]`. raw: `RAW` `[M]`."""
        step = self._belief.step[envs]
        # The bit says that the agent saw no exploit. A missing message is read as 0, which counts
        # as an exploit.
        self._heard[envs, step % SPAN] = (obs[:, _BIT_IN] <= 0).sum(axis=1)
        self._n_heard[envs] += self._heard[envs, step % SPAN]
        hides = (self._n_heard[envs] * SPAN < step) | ~self._heard[envs].any(axis=1)
        self.is_open[envs] = hides & (step >= SPAN)
        shells = raw["n_shells"][:, NUMBERS] > 0
        ways = np.bitwise_or.reduce(raw["seen"][:, NUMBERS], axis=3)
        exploited = (shells | ((ways & (TAKEN | DECEIVED)) > 0)).any(axis=2)
        self._exploited[envs] = np.logical_or.reduceat(
            exploited, scenario4.FIRST_ZONE_OF_AGENT, axis=1
        )
        is_held = shells | self._belief.root[envs] | self._belief.source[envs]
        self._weigh(envs, is_held, raw["decoy_pid"][:, NUMBERS])

    def _weigh(self, envs: Any, is_held: Bits, shown: NDArray[Any]) -> None:
        """Update the chances.

        is_held: bool `[M, 7, 16]`, whether red is known to be on the host, or to attack from it.
        shown: `[M, 7, 16]`, the PID of a decoy that was deployed in this step, or 0."""
        restored = self._belief.restored[envs] == self._belief.step[envs][:, None, None]
        mails = np.where(self._belief.exists[envs] & IS_USER, MAILS, 0.0)
        since = either(self._since[envs], mails)
        pid = self._pid[envs]
        new = shown.astype(np.int64)
        gap = np.clip(new - pid, 0, 2 * MOST_APART)
        # Bayes' rule gives the chance that a process started since the last decoy, given the gap.
        with_one = since * _BEHIND_ANOTHER[gap]
        alone = (1 - since) * _ALONE[gap]
        found = np.divide(with_one, with_one + alone, out=np.ones_like(since), where=alone > 0)
        probed = new > 0
        found = np.where(probed & (pid > 0), found, since)
        before = np.where(is_held, 1.0, self.chance[envs])
        chance = np.where(probed, either(before, found), before)
        self.chance[envs] = np.where(restored, 0.0, chance)
        self._since[envs] = np.where(restored | probed, 0.0, since)
        pid = np.where(restored, 0, pid)
        self._pid[envs] = np.where(probed, new, pid)

    def hidden(self, envs: Any) -> Floats:
        """Return the chance `[M, 7, 16]` that a session hides on a host."""
        return either(self.chance[envs], self._since[envs])

    def says(self, envs: Any) -> Bits:
        """Return the messages `[M, 5, 8]`: the first bit says that the agent saw no exploit."""
        said = np.zeros((*self._exploited[envs].shape, MESSAGE_BITS), np.bool_)
        said[..., 0] = ~self._exploited[envs]
        return said

    def instead(self, envs: Any, taken: Joint) -> Joint:
        """Return the agents' actions `[M, 5]`. While the gate is closed, they are `taken`."""
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
        # An agent that has no host to restore deploys a decoy where the expected loss is highest.
        kinds = np.where(exists & IS_USER, DECOY, 0)
        urgency = np.where(exists, worth, -1)
        kinds[restores] = RESTORE
        urgency[restores] += 100
        ruled = most_urgent(kinds, urgency)
        return np.where(is_open[:, None], ruled, taken)


def either(first: Floats, second: Floats | NDArray[Any]) -> Floats:
    """Return the chance that at least one of two independent events happened."""
    chance: Floats = 1 - (1 - first) * (1 - second)
    return chance
