"""What blue agents know of their hosts after a step, from all raw observations of the episode.

See `simulator_protocol.Simulator.raw_observations`. A team that reads only the flat vectors knows
less.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, PASSED, STRANGER
from workflow_rl.cage4.compiled.actions import REMOVE, RESTORE


class Attack(NamedTuple):
    """Attacks on a host from one source. source: a host, or `raw_record.STRANGER`. step: the step
    of the last attack. seen: the bits of `raw_record.RAW`'s `seen` that the attacks showed."""

    source: int
    step: int
    seen: int


class Known(NamedTuple):
    """What is known of a host. Steps are counted from 1, and 0 stands for never.

    analysed: the step of the last Analyse.
    cmd, escalate: the step of the first Analyse that showed `cmd.sh`, or `escalate.sh`.
    shell: the step in which a shell became known. source: of the last attack from this host.
    attacks: the attacks on this host, one entry for each source.
    A Restore resets all fields, and a Remove resets `shell`.
    """

    analysed: int = 0
    cmd: int = 0
    escalate: int = 0
    shell: int = 0
    source: int = 0
    attacks: tuple[Attack, ...] = ()


class Knowledge:
    """What is known of all hosts. numbers: the number of each different `Known` so far."""

    def __init__(self) -> None:
        self.numbers: dict[Known, int] = {}
        self._hosts: dict[int, Known] = {}

    def changes(self, step: int, state: Any, raw: Any) -> Iterator[tuple[int, int]]:
        """Read a step. Yield each host whose `Known` changed, with the number of its new `Known`.

        step: counted from 1. state: the network's record after the step, see `state.state_for`.
        raw: the `raw_record.RAW` of the step.
        """
        before = dict(self._hosts)
        ended = np.flatnonzero(state["blue_ticks"] == 0)
        # Blue's actions take effect first. The events of red's actions come after them.
        for agent in ended.tolist():
            kind = state["blue_done"][agent]
            host = int(state["blue_target"][agent])
            if kind == RESTORE:
                self._hosts[host] = Known()
            elif kind == REMOVE:
                self._note(host, shell=0)
        for host in np.flatnonzero(raw["files"]).tolist():
            known, files = self._of(host), raw["files"][host]
            cmd = (known.cmd or step) if files & CMD else 0
            escalate = (known.escalate or step) if files & ESCALATE else 0
            self._note(host, analysed=step, cmd=cmd, escalate=escalate)
        for host in np.flatnonzero(raw["n_shells"]).tolist():
            self._note(host, shell=self._of(host).shell or step)
        for host in np.flatnonzero(raw["n_sources"]).tolist():
            for i in range(raw["n_sources"][host]):
                source, seen = int(raw["source"][host, i]), int(raw["seen"][host, i])
                self._attacked(host, Attack(source, step, seen))
        for host, known in self._hosts.items():
            if known != before.get(host, Known()):
                yield host, self.numbers.setdefault(known, len(self.numbers))

    def _of(self, host: int) -> Known:
        return self._hosts.get(host, Known())

    def _note(self, host: int, **facts: Any) -> None:
        self._hosts[host] = self._of(host)._replace(**facts)

    def _attacked(self, host: int, attack: Attack) -> None:
        if attack.source != STRANGER:
            self._note(attack.source, source=attack.step)
        if attack.seen == PASSED:
            return
        attacks = {earlier.source: earlier for earlier in self._of(host).attacks}
        if attack.source in attacks:
            attack = attack._replace(seen=attack.seen | attacks[attack.source].seen)
        self._note(host, attacks=tuple((attacks | {attack.source: attack}).values()))
