"""What blue agents can conclude from their events about the finite-state red agents.

The program of `FiniteStateRedAgent` decides what an event says:

- A red agent of a zone gains root without an event only on its *first foothold*: the host of its
  first session. It must exploit any other host first, also one where phishing opened a session.
- A password attack shows a process and connections on its target in the same step. The host that
  the attack started from mostly shows a connection in that step, too.
- A false alert of a green shows a process on a user host, without a connection. An SQL injection
  shows the same.
- Greens cause no connections on user hosts. A connection there, without an attack in the same
  step, is a scan. Red scans no host that it holds, so that host is not the first foothold.
- A red agent never scans a host twice, unless it lost a session there. Only the session that
  scanned a host can exploit it. So a Restore of the session's host makes the scanned hosts safe.

Each agent's conclusions need its own observations alone, and no messages. NumPy is enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.scenario4 import HOSTS_OF_A_ZONE, N_SERVERS, ON_HOSTS, PROCESSES

Bits = NDArray[np.bool_]

HEADQUARTERS = slice(4, 7)
"""These own zones have one blue and one red agent in common."""
IS_USER = np.arange(HOSTS_OF_A_ZONE) >= N_SERVERS
NEVER = -(10**6)


class Belief:
    """The conclusions of all agents in N episodes, per own zone and host.

    Args:
        masks: bool `[N, 570]`, the five masks one after the other.

    Attributes:
        step: how many observations were read.
        exists, is_user: bool `[N, 7, 16]`, constant.
        exploited: `[N, 7, 16]`: surely attacked since the last Restore.
        doubtful: a process event that is a false alert or an SQL injection, since the last
            Restore or Remove.
        ever_doubtful: the same since the last Restore.
        sources: attacks came from this host, since the last Restore.
        may_be_first: the host may be the first foothold of the zone's red agent.
        first_activity, `[N, 7]`: step in which the zone's red agent was first seen, or NEVER.
    """

    def __init__(self, masks: Bits) -> None:
        self.step = 0
        self.exists = masks[:, ON_HOSTS["Analyse"]]
        self.is_user = self.exists & IS_USER
        self.exploited = np.zeros_like(self.exists)
        self.doubtful = np.zeros_like(self.exists)
        self.ever_doubtful = np.zeros_like(self.exists)
        self.sources = np.zeros_like(self.exists)
        self.may_be_first = self.is_user.copy()
        self.first_activity = np.full(self.exists.shape[:2], NEVER)

    def update(self, observations: NDArray[np.integer]) -> None:
        """Read the observations of a step, `[N, 578]`: those of the five one after the other."""
        processes = observations[:, PROCESSES] > 0
        connections = observations[:, PROCESSES + HOSTS_OF_A_ZONE] > 0
        exploited: Bits = processes & (connections | ~IS_USER)
        doubtful = processes & ~exploited
        attacked = _of_the_agent(np.any(exploited & connections, axis=2))[:, :, None]
        on_users: Bits = connections & self.is_user
        self.exploited |= exploited
        self.doubtful |= doubtful
        self.ever_doubtful |= doubtful
        self.sources |= on_users & ~exploited & attacked
        # An attacked host is on its way to a Restore, whatever it was.
        self.may_be_first &= ~(exploited | (on_users & ~attacked))
        begins = _of_the_agent(np.any(on_users, axis=2)) & (self.first_activity == NEVER)
        self.first_activity[begins] = self.step
        self.step += 1

    @property
    def first_foothold(self) -> NDArray[np.float64]:
        """`[N, 7, 16]`: the chance that a host is the first foothold, if one still exists.

        All possible hosts of a red agent's zones have the same chance.
        """
        possible = self.may_be_first & (self.first_activity != NEVER)[:, :, None]
        return possible / np.maximum(self.n_possible, 1)[:, :, None]

    @property
    def n_possible(self) -> NDArray[np.int64]:
        """`[N, 7]`: how many hosts may be the first foothold of the zone's red agent."""
        return _sum_of_the_agent(self.may_be_first.sum(2))

    def restore(self, episodes: NDArray[np.int64], zone: int, hosts: NDArray[np.int64]) -> None:
        """Note that Restore began on one host of a zone in each of some episodes."""
        for conclusions in (
            self.exploited,
            self.doubtful,
            self.ever_doubtful,
            self.sources,
            self.may_be_first,
        ):
            conclusions[episodes, zone, hosts] = False

    def remove(self, episodes: NDArray[np.int64], zone: int, hosts: NDArray[np.int64]) -> None:
        """Note that Remove began on one host of a zone in each of some episodes."""
        self.doubtful[episodes, zone, hosts] = False

    def features(self) -> NDArray[np.float32]:
        """Return all conclusions on hosts as an observation for learning, `[N, 7, 16, 6]`."""
        parts = (
            self.exists,
            self.exploited,
            self.doubtful,
            self.ever_doubtful,
            self.sources,
            self.first_foothold,
        )
        return np.stack(parts, axis=-1).astype(np.float32)


def _of_the_agent(seen: Bits) -> Bits:
    """Return `[N, 7]`: whether any zone of the same agent has it."""
    joined = seen.copy()
    joined[:, HEADQUARTERS] = seen[:, HEADQUARTERS].any(1, keepdims=True)
    return joined


def _sum_of_the_agent(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `[N, 7]`: the sum over the zones of the same agent."""
    joined = counts.copy()
    joined[:, HEADQUARTERS] = counts[:, HEADQUARTERS].sum(1, keepdims=True)
    return joined
