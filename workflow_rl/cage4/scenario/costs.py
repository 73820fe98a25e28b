"""The costs of a step, which are counted from the true state: numbers of hosts and of events.

A host *counts* if Red can take and lose the host. All users' hosts and servers count, except the
host on which Red begins. Routers and the internet's host do not count: Red cannot take them.
"""

from typing import NamedTuple

from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES


class StepCosts(NamedTuple):
    """The columns of costs, by name.

    Greens fail only for two reasons. Access to a server fails if Blue blocks the traffic. Work
    fails if Red degraded or stopped services. Blue's Restore repairs all services of a host.
    """

    # Hosts that count, at the end of the step: hosts without a red session, hosts with only users'
    # red sessions, and hosts with a red session of root.
    clean_hosts: int
    user_hosts: int
    root_hosts: int
    # Red's actions that succeeded.
    impacts: int
    degrades: int
    # Blue's actions that took effect, whether or not they changed anything.
    restores: int
    removes: int
    # Restores and Removes on hosts without a red session before the step, and with a red session.
    healthy_recoveries: int
    counter_actions: int
    blocks: int
    decoys: int
    analyses: int
    # Hosts on which a Restore was in progress or took effect.
    restore_steps: int
    # Pairs of a zone and another zone whose traffic the first zone blocks, at the end of the step.
    blocked_pairs: int
    # Greens' failed work and accesses, the failures by Blue's blocks and by Red, and all tries.
    green_failures: int
    blue_failures: int
    red_failures: int
    green_work: int
    # The sum of restore_steps and blue_failures.
    downtime: int
    # 1 if Red has a session in a zone that Blue defends, at the end of the step.
    red_present: int
    # What the Restores that agents handed in cost in the challenge's reward.
    action_cost: int


COSTS = StepCosts._fields
AT = StepCosts(*range(len(COSTS)))
"""The index of each column."""
FIRST_LEVEL = len(COSTS)
LEVELS = tuple(f"level {host}" for host in HOST_NAMES)
"""By host number, the level at the end of the step. 0: the host does not count, does not exist, or
has no red session. 1: the host has only users' red sessions. 2: it has root's red session."""
EVALUATED = (*COSTS, *LEVELS)
"""All columns, which evaluations have. A training has only the columns COSTS."""
COUNTED_BLUE = {
    "Analyse": AT.analyses,
    "Remove": AT.removes,
    "Restore": AT.restores,
    "BlockTrafficZone": AT.blocks,
    "DeployDecoy": AT.decoys,
}
COUNTED_RED = {"Impact": AT.impacts, "DegradeServices": AT.degrades}
"""The column that counts each kind of action."""
