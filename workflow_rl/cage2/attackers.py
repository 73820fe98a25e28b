"""Attackers that are written in Python. They play Red in the compiled simulator, without CybORG.

An attacker is an object with two methods, see `RedProgram`. This is a complete attacker:

    class Patient:
        def begin(self, random):
            self.random = random

        def act(self, seen):
            return "Sleep" if self.random.random() < 0.5 else self.random.choice(seen.possible)

The simulator asks an `AttackerBatch` for actions. A batch is one attacker in many envs. `OneByOne`
makes a batch from a class, and `PolicyAttacker` makes a batch from a trained policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.red_program import Asleep, RedProgram, action_index, indices_of
from workflow_rl.cage2.b_line_plan import AFTER_FAILURE, PLAN

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Actor


class Seen:
    """Red's observations in one env, and the actions that Red can choose. Valid until Red acts.

    action_names: the names `[A]` of Red's actions, by index: `Scenario.red_action_names`.
    obs: uint8, zeros and ones, as `Cage2RedEnv` shows them.
    mask: bool `[A]`, the actions that can succeed now. Red may choose other actions, which fail."""

    def __init__(
        self, row: NDArray[np.uint8], action_names: tuple[str, ...], simulator: Any, env: int
    ) -> None:
        self.action_names = action_names
        self.obs = row[: -len(action_names)]
        self.mask = row[-len(action_names) :].view(np.bool_)
        self._simulator = simulator
        self._env = env

    @property
    def success(self) -> bool | None:
        """Whether Red's last action succeeded; None if Red slept, or has not acted."""
        succeeded, failed = self.obs[-2:].tolist()  # An observation ends with these two bits.
        return bool(succeeded) if succeeded or failed else None

    @property
    def possible(self) -> list[str]:
        """The names of the actions in the mask, in the order of `action_names`."""
        return [self.action_names[index] for index in np.flatnonzero(self.mask)]

    def can(self, action: str) -> bool:
        """Return whether the action of this name is in the mask."""
        return bool(self.mask[indices_of(self.action_names)[action]])

    @property
    def addresses(self) -> tuple[str, ...]:
        """All hosts, in the order in which CybORG's action space lists their addresses."""
        addresses: tuple[str, ...] = self._simulator.addresses(self._env)
        return addresses

    @property
    def observation(self) -> dict[str, Any]:
        """What CybORG shows Red after Red's last action, in plain values.

        `"success"` is True, False, or None for unknown. Addresses and enums are strings."""
        observation: dict[str, Any] = self._simulator.observation(self._env)
        return observation


class SeenBatch(NamedTuple):
    """Red's observations in M envs. Valid until Red acts.

    rows: uint8 `[M, O + A]`, the observation and the mask of each env, see `Seen`. action_names:
    `[A]`, by index. simulator: a `RedSimulator`. envs: `[M]`, indices of envs in the simulator."""

    rows: NDArray[np.uint8]
    action_names: tuple[str, ...]
    simulator: Any
    envs: Sequence[int]

    def of(self, i: int) -> Seen:
        """Return Red's observations in the i-th of the M envs."""
        return Seen(self.rows[i], self.action_names, self.simulator, self.envs[i])


class AttackerBatch(Protocol):
    """One attacker that plays Red in many envs, which are numbered from 0."""

    def begin(
        self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[random.Random]
    ) -> None:
        """Begin an episode in each of M envs. seeds, generators: `[M]`, one for each episode."""

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        """Return the next action in each of M envs: indices `[M]` into `SeenBatch.action_names`."""


class OneByOne:
    """An `AttackerBatch` with one `RedProgram` for each env.

    make: returns a new `RedProgram`, and may be its class. Called once for each env."""

    def __init__(self, make: Callable[[], RedProgram]) -> None:
        self._make = make
        self._attackers: dict[int, RedProgram] = {}

    def begin(
        self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[random.Random]
    ) -> None:
        for env, generator in zip(envs, generators, strict=True):
            if env not in self._attackers:
                self._attackers[env] = self._make()
            self._attackers[env].begin(generator)

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        """Return an action for each env. Raises ValueError for an attacker's invalid action."""
        actions = np.zeros(len(envs), np.int64)
        for i, env in enumerate(envs):
            try:
                action = self._attackers[env].act(seen.of(i))
                actions[i] = action_index(action, seen.action_names)
            except Exception as error:
                error.env = env  # type: ignore[attr-defined]
                raise
        return actions


class PolicyAttacker:
    """An `AttackerBatch` that acts by a policy that was trained on Red's side of CAGE-2.

    actor: the policy, which observes the rows of `SeenBatch`."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def begin(
        self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[random.Random]
    ) -> None:
        for env, seed in zip(envs, seeds, strict=True):
            self.actor.reset(seed, env)

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        actions, _ = self.actor.act(seen.rows, envs)
        return actions.astype(np.int64)


# --- CybORG's own attackers on Scenario 2, as `RedProgram`s --------------------------------------

USERS = ("User1", "User2", "User3", "User4")
B_LINES_TARGETS = {
    "user": "User",
    "subnet": "Enterprise",
    "third": "Enterprise2",
    "op_server": "Op_Server0",
}
"""The targets of the roles in B_lineAgent's plan that do not depend on the first host."""


class BLine:
    """`B_lineAgent` follows a plan of fifteen actions. A failure sets it back in the plan."""

    def begin(self, random: random.Random) -> None:
        self._random = random
        self._at = 0
        self._made: dict[int, str] = {}  # By index in the plan: the action with its target.
        self._first = ""

    def act(self, seen: Seen) -> str:
        while True:
            self._at = min(self._at + 1, len(PLAN) - 1) if seen.success else AFTER_FAILURE[self._at]
            kind, role = PLAN[self._at]
            if self._at not in self._made:
                action = f"{kind} {self._target(role, seen)}"
                is_last_exploit = (kind, role) == ("ExploitRemoteService", "op_server")
                if is_last_exploit and not seen.can(action):
                    self._at = 0
                    continue
                self._made[self._at] = action
            return self._made[self._at]

    def _target(self, role: str, seen: Seen) -> str:
        if role == "first":
            self._first = self._first or self._random.choice(USERS)
            return self._first
        if role == "enterprise":
            is_known = seen.can("DiscoverNetworkServices Enterprise0")
            return "Enterprise0" if is_known else "Enterprise1"
        return B_LINES_TARGETS[role]


class Meander:
    """`RedMeanderAgent` attacks all known hosts, in a random order."""

    def begin(self, random: random.Random) -> None:
        self._random = random
        self._swept: set[str] = set()
        self._scanned: set[str] = set()
        self._exploited: set[str] = set()
        self._escalated: set[str] = set()
        self._entered: set[str] = set()
        self._last = "", ""

    def act(self, seen: Seen) -> str:
        self._learn(seen.success)
        self._last = self._next(seen)
        return " ".join(self._last)

    def _next(self, seen: Seen) -> tuple[str, str]:
        if "Op_Server0" in self._escalated:
            return "Impact", "Op_Server0"
        for subnet in ("Enterprise", "Operational", "User"):
            if subnet not in self._swept and seen.can(f"DiscoverRemoteSystems {subnet}"):
                self._swept.add(subnet)
                return "DiscoverRemoteSystems", subnet
        addresses = list(seen.addresses)
        self._random.shuffle(addresses)
        known = [host for host in addresses if seen.can(f"DiscoverNetworkServices {host}")]
        for host in known:
            if host not in self._scanned:
                self._scanned.add(host)
                return "DiscoverNetworkServices", host
        hosts = sorted(seen.addresses)
        self._random.shuffle(hosts)
        lost = self._entered - self._exploited
        for host in hosts:
            if host not in (self._escalated | lost) and seen.can(f"PrivilegeEscalate {host}"):
                self._escalated.add(host)
                return "PrivilegeEscalate", host
        for host in known:
            if host not in self._exploited:
                self._exploited.add(host)
                return "ExploitRemoteService", host
        raise NotImplementedError("Red Meander has run out of options!")

    def _learn(self, success: bool | None) -> None:
        kind, host = self._last
        if kind == "ExploitRemoteService" and success:
            self._entered.add(host)
        elif kind == "ExploitRemoteService":
            self._exploited.remove(host)
            for group in ("Op", "Ent"):
                given_up = {name for name in self._escalated if name.startswith(group)}
                self._escalated -= given_up
                self._exploited -= given_up
                if given_up:
                    break
        elif kind in ("PrivilegeEscalate", "Impact") and success is False:
            self._escalated.discard(host)
            self._exploited -= {host} & self._entered


class Stubborn:
    """An attacker without a plan, for training Blue against behaviour that no known attacker has.

    Each action has a random weight, its liking. The attacker draws actions by their likings, and
    sometimes draws all likings again."""

    CURIOSITY = 0.3  # The probability of an action that was never tried.
    FICKLENESS = 0.1  # The probability that all likings are drawn again.
    TASTE = 3.0  # Standard deviation of the logarithm of a liking.

    def begin(self, random: random.Random) -> None:
        self._random = random
        self._untried: set[int] = set()
        self._likings: list[float] = []

    def act(self, seen: Seen) -> int:
        if not self._likings:
            self._untried = set(range(1, len(seen.action_names)))
            self._choose_likings(len(seen.action_names))
        possible = np.flatnonzero(seen.mask)[1:].tolist()  # Index 0 is Sleep.
        untried = [action for action in possible if action in self._untried]
        if untried and self._random.random() < self.CURIOSITY:
            action = self._random.choice(untried)
        else:
            if self._random.random() < self.FICKLENESS:
                self._choose_likings(len(self._likings))
            weights = [self._likings[action] for action in possible]
            action = self._random.choices(possible, weights)[0]
        self._untried.discard(action)
        return action

    def _choose_likings(self, n_actions: int) -> None:
        self._likings = [self._random.lognormvariate(0, self.TASTE) for _ in range(n_actions)]


CYBORG_REDS_IN_PYTHON: Mapping[str, type[RedProgram]] = {
    "B_lineAgent": BLine,
    "RedMeanderAgent": Meander,
    "SleepAgent": Asleep,
}
"""CybORG's attackers, by their names."""
