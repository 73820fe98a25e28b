"""Attackers of CAGE-4 that were written by hand: opponents, examples, and baselines for `exploit`.

Each class attacks in another way. `--red-agent` takes the names in `roster.LIBRARY`.
"""

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
    """A base class. Each agent takes the first possible kind of ORDER, on a drawn target."""

    ORDER: tuple[str, ...] = ()

    def begin(self, random: random.Random) -> None:
        self.random = random

    def act(self, seen: AgentSees) -> str:
        return self.first_of(self.ORDER, seen)

    def first_of(self, kinds: tuple[str, ...], seen: AgentSees) -> str:
        """Return an action of the first kind that has a possible action, or Sleep."""
        possible = seen.possible
        for kind in kinds:
            if options := [name for name in possible if name.startswith(kind)]:
                return self.random.choice(options)
        return "Sleep"


class ImpactAlone(InOrder):
    """Only Impact, on hosts with a session. Blue sees nothing of an Impact."""

    ORDER = (IMPACT,)


class LoudImpact(ImpactAlone):
    """Impact, but an aggressive scan in one choice of ten, so that Blue still sees Red."""

    def act(self, seen: AgentSees) -> str:
        if self.random.random() < 0.1:
            return self.first_of((SCAN, IMPACT), seen)
        return self.first_of((IMPACT,), seen)


class Greedy(InOrder):
    """Impact if possible, else escalate, exploit or scan. 3 of 10 choices are of a random kind."""

    ORDER = (IMPACT, ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if self.random.random() >= 0.3:
            return super().act(seen)
        kinds = sorted({name.partition(" ")[0] for name in seen.possible})
        return self.first_of((self.random.choice(kinds),), seen)


class Spread(InOrder):
    """Take as many hosts as possible. From the first mission on, Impact in half of the choices."""

    ORDER = (ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if seen.phase > 0 and self.random.random() < 0.5:
            return self.first_of((IMPACT,), seen)
        return super().act(seen)


class OneZone(Greedy):
    """As Greedy, but only agent 0 and one other agent act. The episode draws the other agent."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.aim = random.randrange(1, 6)

    def act(self, seen: AgentSees) -> str:
        return super().act(seen) if seen.agent in (0, self.aim) else "Sleep"


class Quiet(InOrder):
    """Move by stealthy scans and rare exploits, and sleep in 6 of 10 choices."""

    ORDER = (ESCALATE, EXPLOIT, QUIET_SCAN, DISCOVER)

    def act(self, seen: AgentSees) -> str:
        if self.random.random() < 0.6:
            return "Sleep"
        if self.random.random() < 0.7:
            return self.first_of((IMPACT,), seen)
        return super().act(seen)


class PhishingWaiter(InOrder):
    """Wait for sessions from phishing mails, escalate there, and draw Degrade or Impact."""

    def act(self, seen: AgentSees) -> str:
        users = [f"{ESCALATE} {host}" for host in seen.sessions if host not in seen.roots]
        if users and self.random.random() < 0.3:
            return self.random.choice(users)
        return self.first_of(self.random.choice(((IMPACT,), (DEGRADE,))), seen)


class DecoyShy(InOrder):
    """Look for decoys before each exploit, and avoid a host on which two exploits failed."""

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
    """First attack the hosts again that Blue took back."""

    ORDER = (ESCALATE, EXPLOIT, SCAN, DISCOVER)

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.held: dict[int, set[str]] = {}

    def act(self, seen: AgentSees) -> str:
        held = self.held.setdefault(seen.agent, set())
        sessions = set(seen.sessions)
        lost = sorted(held - sessions)
        held |= sessions
        attacks = [f"{EXPLOIT} {host}" for host in lost]
        possible = [action for action in attacks if seen.can(action)]
        if possible and self.random.random() < 0.5:
            return self.random.choice(possible)
        if self.random.random() < 0.3:
            return super().act(seen)
        return self.first_of((IMPACT,), seen)


class Timed(InOrder):
    """Impact in the phase's target zone. Spread quietly, mostly in a phase's first 100 steps."""

    ORDER = (ESCALATE, EXPLOIT, QUIET_SCAN, DISCOVER)
    TARGETS = ("contractor", "operational_zone_a", "operational_zone_b")

    def act(self, seen: AgentSees) -> str:
        target = self.TARGETS[seen.phase]
        impacts = [name for name in seen.possible if name.startswith(f"{IMPACT} {target}")]
        if impacts:
            return self.random.choice(impacts)
        since = seen.step - PHASE_STARTS[seen.phase]
        if since > 100 and self.random.random() < 0.5:
            return "Sleep"
        return super().act(seen)


class Patient(ImpactAlone):
    """Sleep in the first third of the episode, and then Impact."""

    def act(self, seen: AgentSees) -> str:
        return super().act(seen) if seen.phase > 0 else "Sleep"


class Disguised(InOrder):
    """Impact, but exploit in 15 of 100 choices, to look like the challenge's red agent."""

    def act(self, seen: AgentSees) -> str:
        if self.random.random() < 0.15:
            return self.first_of((EXPLOIT, SCAN, DISCOVER), seen)
        return self.first_of((IMPACT,), seen)
