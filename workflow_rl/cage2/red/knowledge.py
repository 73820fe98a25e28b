"""Compute the row that `Cage2RedEnv` would show, for simulators that do not make this row."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.scenario.actions import RED
from workflow_rl.cage2.scenario.scenario import Scenario

NO_SESSION, USER, ROOT = range(3)


class RedKnowledge:
    """What Red knows of a network, and which sessions Red believes it has."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.forget()

    def forget(self) -> None:
        """Begin an episode. Red has a privileged session on its first host."""
        self._session = dict.fromkeys(self._scenario.hosts, NO_SESSION)
        self._session[self._scenario.red_host] = ROOT

    def after(
        self, action: str, succeeded: bool | None, known: Mapping[str, bool]
    ) -> NDArray[np.uint8]:
        """Return the row after an action: see `attackers.SeenBatch`. Call this after each step.

        Args:
            action: Red's action, one of `Scenario.red_action_names`.
            succeeded: None if the success is unknown.
            known: whether Red knows each fact. A fact is "SUBNET subnet", "HOST address",
                "HOST name" or "HOST ports".
        """
        kind, _, target = action.partition(" ")
        if kind == "ExploitRemoteService" and succeeded:
            self._session[target] = max(self._session[target], USER)
        elif kind in ("PrivilegeEscalate", "Impact"):
            self._session[target] = ROOT if succeeded else NO_SESSION
        facts = {f"{subnet} subnet": known[f"{subnet} subnet"] for subnet in self._scenario.subnets}
        for host, session in self._session.items():
            of_host = (f"{host} {fact}" for fact in ("address", "name", "ports"))
            facts |= {name: known[name] for name in of_host}
            facts |= {f"{host} user": session >= USER, f"{host} root": session == ROOT}
        row = [*facts.values(), succeeded is True, succeeded is False]
        for name in self._scenario.red_action_names:
            kind, _, target = name.partition(" ")
            row.append(not target or facts[f"{target} {RED[kind].needs}"])
        return np.array(row, np.uint8)
