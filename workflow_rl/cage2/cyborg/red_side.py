"""The sped-up csle-cyborg as Red meets it: Red's actions by index, and what Red was shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator
from workflow_rl.cage2.interface import OWN_RED
from workflow_rl.cage2.scenario2 import HOSTS, RED_ACTION_NAMES, SUBNETS

SUPERUSERS = ("root", "SYSTEM")
NO_SESSION, USER, ROOT = range(3)


class RedSide(SpedUpSimulator):
    """A network whose Red is told what to do.

    CybORG's actions on a host name its address or, if a session on the host is needed, its name.
    Red learns both from what it is shown.
    """

    def __init__(self) -> None:
        super().__init__()
        self._puppet = Puppet()
        self._red_agents = {OWN_RED: self._puppet}
        self._made = (0, "")
        self._session = np.zeros(len(HOSTS), np.int64)

    def begin(self, seed: int) -> NDArray[np.uint8]:
        """Start an episode; return Blue's observation `[52]`."""
        self._session[:] = NO_SESSION
        self._session[HOSTS.index("User0")] = ROOT
        self._made = (0, "")
        return self.reset(seed, OWN_RED)

    def play(self, blue_action: int, red_action: int) -> tuple[NDArray[np.uint8], float]:
        """Play one step; return Blue's observation `[52]` and Blue's reward."""
        kind, _, target = RED_ACTION_NAMES[red_action].partition(" ")
        self._made = (red_action, target)
        self._puppet.action = self._action(kind, target)
        outcome = self.step(blue_action)
        if target in HOSTS:
            self._conclude(kind, HOSTS.index(target))
        return outcome

    @property
    def red_succeeded(self) -> bool | None:
        """Whether Red's last action succeeded; None if Red made none."""
        return None if self._made[0] == 0 else str(self._red_obs["success"]) == "TRUE"

    def mask(self) -> NDArray[np.bool_]:
        """Return the actions that are possible, `[len(RED_ACTION_NAMES)]`."""
        subnets, addresses, names, ports = self._known()
        known = {"DiscoverRemoteSystems": subnets, "DiscoverNetworkServices": addresses}
        known |= {"ExploitRemoteService": ports, "PrivilegeEscalate": names, "Impact": names}
        possible = np.ones(len(RED_ACTION_NAMES), np.bool_)
        for index, name in enumerate(RED_ACTION_NAMES):
            kind, _, target = name.partition(" ")
            if target:
                places = SUBNETS if target in SUBNETS else HOSTS
                possible[index] = known[kind][places.index(target)]
        return possible

    def knowledge(self) -> NDArray[np.bool_]:
        """Return what Red was shown, in the order of `Cage2RedEnv`'s observation."""
        subnets, addresses, names, ports = self._known()
        succeeded = self.red_succeeded
        hosts = np.stack(
            [addresses, names, ports, self._session >= USER, self._session == ROOT], axis=1
        )
        return np.concatenate([subnets, hosts.ravel(), [succeeded is True, succeeded is False]])

    def _known(self) -> tuple[NDArray[np.bool_], ...]:
        """Return masks of what Red knows: subnets, hosts by address, by name, their ports."""
        known, state = self._red_knows, self._state
        scanned = state.sessions["Red"][0].ports
        address = {name: address for address, name in state.ip_addresses.items()}
        return (
            np.array([known["subnet"].get(state.subnet_name_to_cidr[s], False) for s in SUBNETS]),
            np.array([known["ip_address"].get(address[name], False) for name in HOSTS]),
            np.array([known["hostname"].get(name, False) for name in HOSTS]),
            np.array([address[name] in scanned for name in HOSTS]),
        )

    def _action(self, kind: str, target: str) -> Any:
        make = getattr(CYBORG["shared.actions"], kind)
        if not target:
            return make()
        facts: dict[str, Any] = {"session": 0, "agent": "Red"}
        if target in SUBNETS:
            return make(**facts, subnet=self._state.subnet_name_to_cidr[target])
        if kind in ("PrivilegeEscalate", "Impact"):
            return make(**facts, hostname=target)
        address = next(a for a, name in self._state.ip_addresses.items() if name == target)
        return make(**facts, ip_address=address)

    def _conclude(self, kind: str, host: int) -> None:
        """Update what Red thinks of its sessions, from the outcome of an action on a host."""
        if kind == "ExploitRemoteService" and self.red_succeeded:
            users = {
                session.get("Username")
                for shown in self._red_obs.values()
                if isinstance(shown, dict)
                for session in shown.get("Sessions", ())
            }
            level = ROOT if users & set(SUPERUSERS) else USER
            self._session[host] = max(self._session[host], level)
        elif kind in ("PrivilegeEscalate", "Impact"):
            self._session[host] = ROOT if self.red_succeeded else NO_SESSION


class Puppet:
    """A red agent that does what it is told."""

    action: Any = None

    def get_action(self, observation: Any, action_space: Any) -> Any:
        """Return the action."""
        return self.action

    def end_episode(self) -> None:
        """Do nothing."""
