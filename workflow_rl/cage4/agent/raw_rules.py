"""A team of rules on the raw observation, which plays many episodes at once.

An agent analyses its hosts without pause. It restores a host where Analyse found `escalate.sh`,
removes shells, and restores some hosts that attacks came from. It reads what its own raw
observations tell, as the arrays of `compiled.raw_arrays`, and its own mask. NumPy is enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.compiled.actions import IN_PROGRESS
from workflow_rl.cage4.compiled.network import PLACES
from workflow_rl.cage4.compiled.observe import SHOWN
from workflow_rl.cage4.compiled.raw_arrays import ESCALATE, STRANGER, TAKEN

_N_AGENTS, _N_PLACES = len(scenario4.AGENTS), scenario4.HOSTS_OF_A_ZONE
_ZONES = [scenario4.ZONES.index(scenario4.AGENT_ZONES[i][j]) for i, j in scenario4.OWN_ZONES]
_OWNERS = np.array([owner for owner, _ in scenario4.OWN_ZONES])
NUMBERS = np.array(_ZONES)[:, None] * PLACES + SHOWN
"""The numbers of the hosts `[7, 16]` of own zones."""
_PLACE_OF = np.full(STRANGER + 1, -1)
_PLACE_OF[NUMBERS] = np.arange(NUMBERS.size).reshape(NUMBERS.shape)
_IS_USER = np.arange(_N_PLACES) >= scenario4.N_SERVERS
_WAIT, _ANALYSE, _REMOVE, _RESTORE = range(4)
_KINDS = ("Sleep", "Analyse", "Remove", "Restore")
_FIRST = np.stack([scenario4.FIRST_OF_KIND[kind] for kind in _KINDS])


class RawRules(NamedTuple):
    """What the team does, chosen on episodes that are not reported. Times are in steps.

    server: the worth of analysing a server, where a user's host has 1 for each step since the last
        Analyse. Mail opens sessions on the hosts of users alone.
    shell, source, removed: what a shell, a first attack from the host and a Remove there add.
    lead: how long before its decisive phase a zone restores all sources.
    taken: so many hosts taken from one source make the source worth a Restore.
    last: a Restore or Remove in the last steps does not pay.
    """

    server: float = 0.25
    shell: float = 150
    source: float = 60
    removed: float = 200
    lead: int = 30
    taken: int = 2
    last: int = 9


class BatchedRawRuleTeam:
    """It plays N episodes of `BatchedSimulator(N, shows_raw=True)`."""

    def __init__(self, rules: RawRules | None = None) -> None:
        self._rules = rules or RawRules()

    def reset(self, masks: NDArray[np.bool_]) -> None:
        """Begin N episodes. masks: bool `[N, 570]`."""
        self._step = 0
        self._exists = masks[:, scenario4.ON_HOSTS["Analyse"]]
        shape = self._exists.shape
        self._shells, self._is_root, self._is_source = np.zeros((3, *shape), np.bool_)
        self._n_taken, self._analysed = np.zeros((2, *shape), np.int64)
        self._worth = np.zeros(shape)
        self._has_restored = np.zeros((len(masks), _N_AGENTS), np.bool_)
        self._kind, self._place = np.zeros((2, len(masks), _N_AGENTS), np.int64)

    def act(self, raw: NDArray[Any]) -> NDArray[np.int64]:
        """Return actions `[N, 5]`. raw: `RAW` `[N]`, of the last step or of the reset."""
        is_free = raw["success"] != IN_PROGRESS
        self._finish(is_free)
        self._read(raw)
        kinds, urgency = self._wishes()
        actions = np.tile(np.array(scenario4.SLEEP_ACTIONS), (len(raw), 1))
        everything = np.arange(len(raw))
        for agent in range(_N_AGENTS):
            places = agent == _OWNERS
            place = urgency[:, places].reshape(len(raw), -1).argmax(1)
            kind = kinds[:, places].reshape(len(raw), -1)[everything, place]
            kind[~is_free[:, agent]] = _WAIT
            acts = kind != _WAIT
            actions[acts, agent] = (_FIRST[kind, agent] + place)[acts]
            self._kind[acts, agent] = kind[acts]
            first_place = scenario4.FIRST_ZONE_OF_AGENT[agent] * _N_PLACES
            self._place[acts, agent] = first_place + place[acts]
            self._has_restored[:, agent] |= kind == _RESTORE
        self._step += 1
        return actions

    def _finish(self, is_free: NDArray[np.bool_]) -> None:
        """Note what the actions that took effect in the last step ended."""
        for kind in (_REMOVE, _RESTORE):
            episodes, agents = np.nonzero(is_free & (self._kind == kind))
            at = episodes, *divmod(self._place[episodes, agents], _N_PLACES)
            self._shells[at] = False
            if kind == _REMOVE:
                self._worth[at] += self._rules.removed
                continue
            for notes in (self._is_root, self._is_source, self._n_taken, self._worth):
                notes[at] = 0
            self._analysed[at] = self._step
        self._kind[is_free] = _WAIT

    def _read(self, raw: NDArray[Any]) -> None:
        files = raw["files"][:, NUMBERS]
        seen = files > 0
        self._analysed[seen] = self._step
        self._worth[seen] = 0
        self._is_root[seen] = files[seen] & ESCALATE > 0
        shells = raw["n_shells"][:, NUMBERS] > 0
        self._shells |= shells
        self._worth[shells] += self._rules.shell
        slots = np.arange(raw["source"].shape[2]) < raw["n_sources"][:, :, None]
        episodes, hosts, slot = np.nonzero(slots)
        places = _PLACE_OF[raw["source"][episodes, hosts, slot]]
        is_own = places >= 0
        at = episodes[is_own], *divmod(places[is_own], _N_PLACES)
        is_first = ~self._is_source[at]
        self._worth[tuple(index[is_first] for index in at)] += self._rules.source
        self._is_source[at] = True
        takes = raw["seen"][episodes, hosts, slot][is_own] & TAKEN > 0
        np.add.at(self._n_taken, at, takes)

    def _wishes(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return by host what is to be done there, and how urgent it is, both `[N, 7, 16]`."""
        rules, exists, shells = self._rules, self._exists, self._shells
        waited = (self._step - self._analysed) * np.where(_IS_USER, 1, rules.server)
        urgency = np.where(exists, 1 + waited + self._worth, -1)
        kinds = np.where(exists, _ANALYSE, _WAIT)
        remaining = scenario4.COUNTED_STEPS - self._step
        if remaining <= rules.last:
            return np.where(remaining > 1, kinds, _WAIT), urgency
        restores = self._is_source & (
            ~self._has_restored[:, _OWNERS, None]
            | self._is_decisive()[:, None]
            | (self._n_taken >= rules.taken)
        )
        ranked = (
            (restores, _RESTORE),
            (shells, _REMOVE),
            (shells & self._is_source, _RESTORE),
            (self._is_root, _RESTORE),
        )
        for rank, (hosts, kind) in enumerate(ranked, start=1):
            hosts = hosts & exists
            kinds[hosts] = kind
            urgency[hosts] = rank * 1e6 + waited[hosts]
        return kinds, urgency

    def _is_decisive(self) -> NDArray[np.bool_]:
        """Return `[7]`: whether the zone is in its decisive phase, or soon."""
        phases = (*scenario4.PHASE_STARTS, scenario4.MAX_STEPS)
        decisive = np.zeros(len(_OWNERS), np.bool_)
        for zone, phase in scenario4.DECISIVE_PHASES:
            decisive[zone] |= phases[phase] - self._rules.lead <= self._step < phases[phase + 1]
        return decisive
