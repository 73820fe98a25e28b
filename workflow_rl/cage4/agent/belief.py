"""What blue agents know of their hosts from all their raw observations of an episode.

An agent's knowledge comes from its own observations, and never from messages. This module needs
NumPy alone, because submissions contain a copy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, NUMBERS, STRANGER, TAKEN
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.scenario4 import IN_PROGRESS

Bits: TypeAlias = NDArray[np.bool_]
Joint: TypeAlias = NDArray[np.int64]

N_AGENTS = len(scenario4.AGENTS)
N_OWN_ZONES = len(scenario4.OWN_ZONES)
N_PLACES = scenario4.HOSTS_OF_A_ZONE
OWNERS = np.array([owner for owner, _ in scenario4.OWN_ZONES])
"""The index of the agent that defends each own zone, `[7]`."""
IS_USER = np.arange(N_PLACES) >= scenario4.N_SERVERS
NEVER = -(10**6)
"""The step of an event that has not happened."""
# The order is that of ON_HOSTS.
ANALYSE, REMOVE, RESTORE, DECOY = range(1, 5)
FIRST = np.full((1 + len(scenario4.ON_HOSTS), N_AGENTS), -1)
FIRST[1:] = [scenario4.FIRST_OF_KIND[kind] for kind in scenario4.ON_HOSTS]
"""`[5, 5]`, by kind and agent: the index of the agent's first action of that kind. Kind 0 means no
action on a host, and has the index -1."""
_PLACE_OF = np.full(STRANGER + 1, -1)
_PLACE_OF[NUMBERS] = np.arange(NUMBERS.size).reshape(NUMBERS.shape)
"""By a host's number: the host's index among the 7 * 16 hosts of own zones, or -1."""


class Belief:
    """The knowledge of all agents in N envs. The caller passes every step to `update`.

    An attribute without a shape is `[N, 7, 16]`, with an entry for each host of an own zone. A
    Restore of a host resets the host's entries. A step is NEVER if the event has not happened.

    Attributes:
        step: int `[N]`, how many steps were read.
        exists: bool, whether the host is in this episode's network.
        shell: bool, whether red has a shell that no Remove has ended.
        had_shell: bool, whether red has had a shell.
        root: bool, whether the last Analyse found `escalate.sh`, which only red's root leaves.
        source: bool, whether red attacked from this host.
        n_taken: int, how many hosts red took from this host.
        decoys: int, how many decoys were deployed.
        removed: bool, whether a Remove ended since the last Analyse.
        analysed, restored: int, the step of the last Analyse and the last Restore. Both begin at 0.
        attacked: int, the last step in which the host showed a shell.
        suspected: int, the step of the first attack from this host.
        scanned: int, the last step in which red scanned this host.
        n_restores: int `[N, 5]`, how many Restores the agent began.
        last_seen: int `[N, 5]`, the last step in which the agent saw an action of red.
        news: int `[N, 5]`, the last step in which the agent learned of a shell, of root, or of an
            attack from one of its hosts.
    """

    def __init__(self, n_envs: int) -> None:
        hosts = n_envs, N_OWN_ZONES, N_PLACES
        self.step = np.zeros(n_envs, np.int64)
        self.exists = np.zeros(hosts, np.bool_)
        self.shell, self.had_shell, self.root, self.source, self.removed = np.zeros(
            (5, *hosts), np.bool_
        )
        self.n_taken, self.decoys = np.zeros((2, *hosts), np.int64)
        self.analysed, self.attacked, self.suspected, self.restored, self.scanned = np.full(
            (5, *hosts), NEVER
        )
        self.n_restores = np.zeros((n_envs, N_AGENTS), np.int64)
        self.last_seen, self.news = np.full((2, n_envs, N_AGENTS), NEVER)
        self._kind, self._place = np.zeros((2, n_envs, N_AGENTS), np.int64)

    def begin(self, envs: Any, masks: Bits, raw: NDArray[Any]) -> None:
        """Begin episodes in M envs. masks: bool `[M, 570]`. raw: `RAW` `[M]`, of the reset."""
        self.exists[envs] = masks[:, scenario4.ON_HOSTS["Analyse"]]
        for flags in (self.shell, self.had_shell, self.root, self.source, self.removed):
            flags[envs] = False
        for numbers in (self.step, self.n_taken, self.decoys, self.n_restores, self._kind):
            numbers[envs] = 0
        for times in (self.attacked, self.suspected, self.scanned, self.last_seen, self.news):
            times[envs] = NEVER
        self.analysed[envs] = self.restored[envs] = 0
        self._read(np.arange(len(self.step))[envs], raw)

    def begin_actions(self, envs: Any, taken: Joint) -> None:
        """Note the actions `[M, 5]` that free agents begin. Only actions on hosts matter."""
        for kind in (ANALYSE, REMOVE, RESTORE, DECOY):
            place = taken - FIRST[kind]
            is_of_kind = (place >= 0) & (place < scenario4.N_ZONES_OF_AGENT * N_PLACES)
            rows, agents = np.nonzero(is_of_kind)
            at = np.arange(len(self.step))[envs][rows], agents
            self._kind[at] = kind
            first = scenario4.FIRST_ZONE_OF_AGENT[agents] * N_PLACES
            self._place[at] = first + place[rows, agents]
            if kind == RESTORE:
                self.n_restores[at] += 1

    def update(self, envs: Any, raw: NDArray[Any]) -> None:
        """Read what a step showed in M envs. raw: `RAW` `[M]`."""
        which = np.arange(len(self.step))[envs]
        self.step[which] += 1
        self._finish(which, raw["success"] != IN_PROGRESS)
        self._read(which, raw)

    def _finish(self, envs: Joint, is_free: Bits) -> None:
        """Update the hosts whose Remove or Restore took effect in the last step."""
        kinds = np.where(is_free, self._kind[envs], 0)
        for kind in (REMOVE, RESTORE):
            rows, agents = np.nonzero(kinds == kind)
            zones, places = np.divmod(self._place[envs[rows], agents], N_PLACES)
            at = envs[rows], zones, places
            self.shell[at] = False
            if kind == REMOVE:
                self.removed[at] = True
                continue
            for flags in (self.had_shell, self.root, self.source, self.removed):
                flags[at] = False
            self.n_taken[at] = self.decoys[at] = 0
            self.attacked[at] = self.suspected[at] = self.scanned[at] = NEVER
            self.analysed[at] = self.restored[at] = self.step[at[0]]
        self._kind[envs] = np.where(is_free, 0, self._kind[envs])

    def _read(self, envs: Joint, raw: NDArray[Any]) -> None:
        rows, zones, places = np.nonzero(raw["files"][:, NUMBERS])
        files = raw["files"][rows, NUMBERS[zones, places]]
        at = envs[rows], zones, places
        self.analysed[at] = self.step[at[0]]
        self.root[at] = (files & ESCALATE) > 0
        self.removed[at] = False
        self.had_shell[at] |= (files & CMD) > 0
        self._note_news(at, (files & ESCALATE) > 0)
        self.decoys[envs] += raw["decoy"][:, NUMBERS] > 0
        rows, zones, places = np.nonzero(raw["n_shells"][:, NUMBERS])
        at = envs[rows], zones, places
        self.shell[at] = self.had_shell[at] = True
        self.attacked[at] = self.step[at[0]]
        self._note_news(at, np.ones(len(rows), np.bool_))
        self._read_sources(envs, raw)

    def _read_sources(self, envs: Joint, raw: NDArray[Any]) -> None:
        rows, zones, places = np.nonzero(raw["n_sources"][:, NUMBERS])
        at = envs[rows], zones, places
        self.scanned[at] = self.last_seen[at[0], OWNERS[zones]] = self.step[at[0]]
        # From here on, each row is one source of attacks on any host.
        rows, hosts = np.nonzero(raw["n_sources"])
        slots = np.arange(raw["source"].shape[2]) < raw["n_sources"][rows, hosts][:, None]
        which, slot = np.nonzero(slots)
        rows, hosts = rows[which], hosts[which]
        sources = _PLACE_OF[raw["source"][rows, hosts, slot]]
        is_own = sources >= 0
        zones, places = np.divmod(sources[is_own], N_PLACES)
        at = envs[rows[is_own]], zones, places
        is_first = ~self.source[at]
        self.suspected[tuple(index[is_first] for index in at)] = self.step[at[0][is_first]]
        self.source[at] = True
        takes = (raw["seen"][rows, hosts, slot][is_own] & TAKEN) > 0
        np.add.at(self.n_taken, at, takes)
        self._note_news(at, is_first | takes)

    def _note_news(self, at: tuple[Joint, ...], is_news: Bits) -> None:
        envs, zones = at[0][is_news], at[1][is_news]
        self.news[envs, OWNERS[zones]] = self.step[envs]

    def is_pressing(self, envs: Any) -> Bits:
        """Return which agents `[M, 5]` know of a shell or of red's root on one of their hosts."""
        known = ((self.shell[envs] | self.root[envs]) & self.exists[envs]).any(axis=2)
        pressing: Bits = np.logical_or.reduceat(known, scenario4.FIRST_ZONE_OF_AGENT, axis=1)
        return pressing

    def suspects(self, envs: Any) -> Bits:
        """Return which hosts `[M, 7, 16]` have a shell or red's root, or are sources of attacks."""
        return (self.shell[envs] | self.root[envs] | self.source[envs]) & self.exists[envs]
