"""Attackers of CAGE-4 that were written by hand: opponents, examples, and a floor for `exploit`.

Each stands for a way to attack. `--red-agent` takes the names that
`roster.LIBRARY` has.
"""

from __future__ import annotations

import random

from workflow_rl.cage4.attackers import AgentSees
from workflow_rl.cage4.scenario.scenario4 import PHASE_STARTS

DISCOVER, SCAN, QUIET_SCAN = (
    "DiscoverRemoteSystems",
    "AggressiveServiceDiscovery",
    "StealthServiceDiscovery",
)
EXPLOIT, ESCALATE, DEGRADE = "ExploitRemoteService", "PrivilegeEscalate", "DegradeServices"
DECEPTION, IMPACT = "DiscoverDeception", "Impact"


class InOrder:
    """A base: each agent takes the first kind of ORDER that is possible, on a drawn host."""

    ORDER: tuple[str, ...] = ()

    def begin(self, random: random.Random) -> None:
        self.random = random

    def act(self, seen: AgentSees) -> str:
        return self.first_of(self.ORDER, seen)

    def first_of(self, kinds: tuple[str, ...], seen: AgentSees) -> str:
        """Return a possible action of the first kind that has one, or Sleep."""
        possible = seen.possible
        for kind in kinds:
            if options := [name for name in possible if name.startswith(kind)]:
                return self.random.choice(options)
        return "Sleep"


class ImpactAlone(InOrder):
    """Impact wherever there is a session, and nothing else: it shows nothing to Blue."""

    ORDER = (IMPACT,)


class LoudImpact(ImpactAlone):
    """Impact, and one loud scan in ten choices, so that Blue does not take Red for gone."""

    def act(self, seen: AgentSees) -> str:
        return self.first_of((SCAN, IMPACT) if self.random.random() < 0.1 else (IMPACT,), seen)


class Greedy(InOrder):
    """Impact if possible, else escalate, exploit, scan; three times in ten a random kind."""

    ORDER = (IMPACT, ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if self.random.random() >= 0.3:
            return super().act(seen)
        kinds = sorted({name.partition(" ")[0] for name in seen.possible})
        return self.first_of((self.random.choice(kinds),), seen)


class Spread(InOrder):
    """Hold as many hosts as can be had until the first mission, and then Impact everywhere."""

    ORDER = (ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if seen.phase > 0 and self.random.random() < 0.5:
            return self.first_of((IMPACT,), seen)
        return super().act(seen)


class OneZone(Greedy):
    """Stay in the zones of one agent, which the episode draws, as an intruder with one aim does."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.aim = random.randrange(1, 6)

    def act(self, seen: AgentSees) -> str:
        return super().act(seen) if seen.agent in (0, self.aim) else "Sleep"


class Quiet(InOrder):
    """Move by stealthy scans and rare exploits, and act once in three steps."""

    ORDER = (ESCALATE, EXPLOIT, QUIET_SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if self.random.random() < 0.6:
            return "Sleep"
        return self.first_of((IMPACT,), seen) if self.random.random() < 0.7 else super().act(seen)


class PhishingWaiter(InOrder):
    """Wait for what green's mails open, take root there, and break services and Impact in turn."""

    def act(self, seen: AgentSees) -> str:
        users = [f"{ESCALATE} {host}" for host in seen.sessions if host not in seen.roots]
        if users and self.random.random() < 0.3:
            return self.random.choice(users)
        return self.first_of(self.random.choice(((IMPACT,), (DEGRADE,))), seen)


class DecoyShy(InOrder):
    """Look for decoys before each exploit, and leave a host where exploits failed twice."""

    ORDER = (IMPACT, ESCALATE)

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.looked: set[str] = set()
        self.failures: dict[str, int] = {}
        self.last: dict[int, str] = {}

    def act(self, seen: AgentSees) -> str:
        last = self.last.get(seen.agent, "")
        if last.startswith(EXPLOIT) and seen.success is False:
            self.failures[last] = self.failures.get(last, 0) + 1
        action = self.first_of(self.ORDER, seen)
        if action == "Sleep" or self.random.random() < 0.3:
            action = self._next(seen)
        self.last[seen.agent] = action
        return action

    def _next(self, seen: AgentSees) -> str:
        hopeful = [
            name
            for name in seen.possible
            if name.startswith(EXPLOIT) and self.failures.get(name, 0) < 2
        ]
        if not hopeful or self.random.random() < 0.3:
            return self.first_of((QUIET_SCAN, DISCOVER), seen)
        exploit = self.random.choice(hopeful)
        look = exploit.replace(EXPLOIT, DECEPTION)
        if look in self.looked:
            return exploit
        self.looked.add(look)
        return look


class Returner(InOrder):
    """Go back to each host that Blue has taken from it, before anything else."""

    ORDER = (ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.held: dict[int, set[str]] = {}

    def act(self, seen: AgentSees) -> str:
        held = self.held.setdefault(seen.agent, set())
        sessions = set(seen.sessions)
        lost = sorted(held - sessions)
        held |= sessions
        back = [action for host in lost if seen.can(action := f"{EXPLOIT} {host}")]
        if back and self.random.random() < 0.5:
            return self.random.choice(back)
        return super().act(seen) if self.random.random() < 0.3 else self.first_of((IMPACT,), seen)


class Timed(InOrder):
    """Spread quietly, and strike where the mission of the phase is, in its first steps most."""

    ORDER = (ESCALATE, EXPLOIT, QUIET_SCAN, DISCOVER)
    TARGETS = ("contractor", "operational_zone_a", "operational_zone_b")

    def act(self, seen: AgentSees) -> str:
        target = self.TARGETS[seen.phase]
        impacts = [name for name in seen.possible if name.startswith(f"{IMPACT} {target}")]
        if impacts:
            return self.random.choice(impacts)
        since = seen.step - PHASE_STARTS[seen.phase]
        return "Sleep" if since > 100 and self.random.random() < 0.5 else super().act(seen)


class Patient(ImpactAlone):
    """Show nothing for a third of the episode, and then Impact."""

    def act(self, seen: AgentSees) -> str:
        return super().act(seen) if seen.phase > 0 else "Sleep"


class Disguised(InOrder):
    """Impact, and exploit now and then, so as to look like the challenge's red agent."""

    def act(self, seen: AgentSees) -> str:
        if self.random.random() < 0.15:
            return self.first_of((EXPLOIT, SCAN, DISCOVER), seen)
        return self.first_of((IMPACT,), seen)
