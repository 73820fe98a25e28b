"""A timer for a red that shows nothing: what agents tell each other, probe, and restore.

A mail opens a session for red without a trace, and an Impact shows nothing either. Red needs no
more to cost blue up to 10 in every second step. The challenge's red agent shows itself soon: it
scans, exploits and escalates. So once most agents have seen nothing for long, the team looks for
hidden sessions: a new process has a PID of 1 to 9 above the highest on its host, so a decoy whose
PID is higher than that of the decoy before it by 10 or more shows that a process of red's came
between. If there is such a host, agents restore their hosts in turn, because a probe finds only
half of the sessions. This module needs NumPy alone, because submissions contain a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import DECOY, IS_USER, N_AGENTS, RESTORE, Belief, Bits, Joint
from workflow_rl.cage4.agent.raw_record import NUMBERS
from workflow_rl.cage4.agent.rules import most_urgent, remaining
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import MESSAGE_BITS, OBS_SIZES

LONG = np.array([100, 100, 180])
"""By mission phase: steps in which most agents saw nothing, after which the team looks for hidden
sessions."""
MOST_APART = 9
"""How much the PID of a new process can be above the highest one of its host."""
LAST = 12
"""A Restore of a host that nobody suspects does not pay in the last steps."""
_HAS_ONE_ZONE = scenario4.N_ZONES_OF_AGENT == 1
"""An agent of three zones cannot keep red out: mails come faster than it restores."""


_HEARD_IN = scenario4.FIRST_OBS + np.array(OBS_SIZES) - (N_AGENTS - 1) * MESSAGE_BITS
# Agent 1 hears agent 0 first, and agent 0 hears the others in order.
_SILENT_IN = np.array([_HEARD_IN[1], *(_HEARD_IN[0] + MESSAGE_BITS * np.arange(N_AGENTS - 1))])
_FOUND_IN = _SILENT_IN + 1
"""Where an observation of the team has the first and the second bit of each agent's message `[5]`.
"""


class HiddenRedTimer:
    """What the agents have told each other in N envs, and what each has found with decoys.

    silence: int `[N, 5]`, for how many steps an agent has said that it sees nothing of red. Every
        agent knows those of all: its own messages, and those that it hears. An agent that is not
        heard counts as one that sees red.
    hides: bool `[N]`, whether red hides: a session was found while all was silent.
    found: bool `[N, 7, 16]`, a decoy showed a hidden session, which no Restore has ended.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief, hosts = belief, belief.exists.shape
        self.silence = np.zeros((hosts[0], N_AGENTS), np.int64)
        self.hides, self.found = np.zeros(hosts[0], np.bool_), np.zeros(hosts, np.bool_)
        self._pid, self._probed = np.zeros((2, *hosts), np.int64)

    def begin(self, envs: Any) -> None:
        """Begin episodes in M envs."""
        for numbers in (self.silence, self.hides, self.found, self._pid, self._probed):
            numbers[envs] = 0

    def see(self, envs: Any, obs: Any, raw: NDArray[Any]) -> None:
        """Read the messages and decoys of a step. obs: `[M, 578]`. raw: `RAW` `[M]`."""
        self.silence[envs] = (self.silence[envs] + 1) * (obs[:, _SILENT_IN] > 0)
        is_quiet = self._is_quiet(envs)
        self.hides[envs] = is_quiet & (self.hides[envs] | (obs[:, _FOUND_IN] > 0).any(axis=1))
        step = self._belief.step[envs][:, None, None]
        restored = self._belief.restored[envs] == step
        pid = np.where(restored, 0, self._pid[envs])
        shown = raw["decoy_pid"][:, NUMBERS].astype(np.int64)
        found = self.found[envs] | ((pid > 0) & (shown > pid + MOST_APART))
        self.found[envs] = found & ~restored
        self._pid[envs] = np.where(shown > 0, shown, pid)
        self._probed[envs] = np.where(shown > 0, step, self._probed[envs])

    def says(self, envs: Any) -> Bits:
        """Return the messages `[M, 5, 8]`. The first bit says that the agent sees nothing of red,
        the second that it has found a hidden session."""
        sign = np.maximum(self._belief.last_seen[envs], self._belief.news[envs])
        said = np.zeros((*sign.shape, MESSAGE_BITS), np.bool_)
        said[..., 0] = sign < self._belief.step[envs][:, None]
        found = self.found[envs].any(axis=2)
        said[..., 1] = np.logical_or.reduceat(found, scenario4.FIRST_ZONE_OF_AGENT, axis=1)
        return said

    def instead(self, envs: Any, sweeping: Joint) -> Joint:
        """Return what agents `[M, 5]` do that have nothing better to do than to sweep.

        sweeping: `[M, 5]`, what they do while they see enough of red.
        """
        is_quiet = self._is_quiet(envs) & (remaining(self._belief, envs) > LAST)
        if not is_quiet.any():
            return sweeping
        step, found = self._belief.step[envs][:, None, None], self.found[envs]
        may_hide = self._belief.exists[envs] & (IS_USER | found)
        age = np.where(may_hide, step - self._belief.restored[envs], -1.0)
        oldest = most_urgent(np.where(may_hide, RESTORE, 0), age + 1e6 * found)
        waited = np.where(may_hide, step - self._probed[envs], -1.0)
        probes = most_urgent(np.where(may_hide, DECOY, 0), waited)
        restores = self.hides[envs][:, None] & _HAS_ONE_ZONE
        return np.where(is_quiet[:, None], np.where(restores, oldest, probes), sweeping)

    def _is_quiet(self, envs: Any) -> Bits:
        phase = np.searchsorted(
            np.array(scenario4.PHASE_STARTS[1:]), self._belief.step[envs], side="right"
        )
        quiet: Bits = np.median(self.silence[envs], axis=1) >= LONG[phase]
        return quiet
