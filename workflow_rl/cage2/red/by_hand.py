"""Attackers of CAGE-2 that were written by hand, as opponents and as examples.

They play on any network. `roster.LIBRARY` has their names for `--red-agent`."""

import random

from workflow_rl.cage2.attackers import Seen

DISCOVER, SCAN = "DiscoverRemoteSystems", "DiscoverNetworkServices"
EXPLOIT, ESCALATE, IMPACT = "ExploitRemoteService", "PrivilegeEscalate", "Impact"


class GreedyRed:
    """Choose an action of the first kind in ORDER that has a possible action. In one of five steps,
    choose any possible action at random.

    done: the actions that succeeded, which are not repeated. When an action on a host fails, all
    actions on this host leave `done`."""

    ORDER: tuple[str, ...] = (IMPACT, ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def begin(self, random: random.Random) -> None:
        self.random = random
        self.step = 0
        self.last = "Sleep"
        self.done: set[str] = set()

    def act(self, seen: Seen) -> str:
        self.step += 1
        kind, _, target = self.last.partition(" ")
        if seen.success and kind != IMPACT:
            self.done.add(self.last)
        elif seen.success is False:
            self.done -= {f"{action} {target}" for action in self.ORDER}
        self.last = self.choose(seen)
        return self.last

    def choose(self, seen: Seen) -> str:
        """Return the next action."""
        open_actions = self.open_actions(seen)
        if open_actions and self.random.random() < 0.2:
            return self.random.choice(open_actions)
        return self.first_of(self.ORDER, open_actions)

    def open_actions(self, seen: Seen) -> list[str]:
        """Return the possible actions that are not done, without Sleep."""
        return [name for name in seen.possible[1:] if name not in self.done]

    def first_of(self, kinds: tuple[str, ...], actions: list[str]) -> str:
        """Return a random action of the first kind in `kinds` that `actions` has, or Sleep."""
        for kind in kinds:
            if options := [name for name in actions if name.startswith(kind)]:
                return self.random.choice(options)
        return "Sleep"


class SpreadRed(GreedyRed):
    """Take as many hosts as possible, and choose Impact last."""

    ORDER = (ESCALATE, EXPLOIT, SCAN, DISCOVER, IMPACT)


class QuietRed(GreedyRed):
    """Act in half of the steps, so that Blue notices less."""

    def choose(self, seen: Seen) -> str:
        return "Sleep" if self.random.random() < 0.5 else super().choose(seen)


class PatientRed(GreedyRed):
    """Sleep at first, and attack from the 15th step on."""

    def choose(self, seen: Seen) -> str:
        return "Sleep" if self.step < 15 else super().choose(seen)


class ReturningRed(GreedyRed):
    """Retake lost hosts before taking new hosts."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.held: set[str] = set()

    def choose(self, seen: Seen) -> str:
        sessions = {n.partition(" ")[2] for n in seen.possible if n.startswith(ESCALATE)}
        lost = sorted(self.held - sessions)
        self.held |= sessions
        back = [action for host in lost if seen.can(action := f"{EXPLOIT} {host}")]
        return self.random.choice(back) if back else super().choose(seen)


class DecoyShyRed(GreedyRed):
    """Wait ten steps before a failed exploit is tried again: the host may have a decoy."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.shy_until: dict[str, int] = {}

    def open_actions(self, seen: Seen) -> list[str]:
        if self.last.startswith(EXPLOIT) and seen.success is False:
            self.shy_until[self.last] = self.step + 10
        actions = super().open_actions(seen)
        return [name for name in actions if self.shy_until.get(name, 0) <= self.step]


class LastFoundRed(GreedyRed):
    """Choose the last possible target in the list of actions, which is deepest in the network."""

    def first_of(self, kinds: tuple[str, ...], actions: list[str]) -> str:
        for kind in kinds:
            if options := [name for name in actions if name.startswith(kind)]:
                return options[-1]
        return "Sleep"
