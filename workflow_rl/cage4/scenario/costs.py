"""The costs of a step, which are counted from the true state: numbers of hosts and of events.

A host *counts* if Red can take it and lose it: all users' hosts and servers but the one in the
contractor's network on which Red begins. Nobody can take a router or the internet's host.
"""

from __future__ import annotations

from typing import NamedTuple

from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES


class StepCosts(NamedTuple):
    """The columns of costs, by name.

    Greens fail for two reasons alone. Access to a server fails if Blue blocks the traffic. Work
    fails on services that Red degraded or stopped: Blue's Restore leaves all at full strength.
    """

    # Hosts that count, at the end of the step: without a session of Red, with sessions of users'
    # rights alone, and with a session of root's rights.
    clean_hosts: int
    user_hosts: int
    root_hosts: int
    # Red's actions that succeeded.
    impacts: int
    degrades: int
    # Blue's actions that took effect, whether or not they changed anything.
    restores: int
    removes: int
    # The Restores and Removes on hosts without a session of Red just before, and on hosts with one.
    healthy_recoveries: int
    counter_actions: int
    blocks: int
    decoys: int
    analyses: int
    # Hosts on which a Restore was in progress or took effect.
    restore_steps: int
    # Pairs of a zone and another zone whose traffic it blocks, at the end of the step.
    blocked_pairs: int
    # Greens' work and access to servers that failed, the causes, and all that they tried.
    green_failures: int
    blue_failures: int
    red_failures: int
    green_work: int
    # The sum of restore_steps and blue_failures.
    downtime: int
    # 1 if Red has a session in a zone that Blue defends, at the end of the step.
    red_present: int
    # What the challenge charges for the Restores that were handed in.
    action_cost: int


COSTS = StepCosts._fields
AT = StepCosts(*range(len(COSTS)))
"""The number of each column."""
FIRST_LEVEL = len(COSTS)
LEVELS = tuple(f"level {host}" for host in HOST_NAMES)
"""By host's number: what Red holds at the end of the step. 0: the host does not count, is not in
this network, or has no session of Red; 1: a user's session; 2: root's."""
EVALUATED = (*COSTS, *LEVELS)
"""All columns, as evaluations have them. A training has `COSTS` alone."""
COUNTED_BLUE = {
    "Analyse": AT.analyses,
    "Remove": AT.removes,
    "Restore": AT.restores,
    "BlockTrafficZone": AT.blocks,
    "DeployDecoy": AT.decoys,
}
COUNTED_RED = {"Impact": AT.impacts, "DegradeServices": AT.degrades}
"""By kind of an action: the column that counts it."""
