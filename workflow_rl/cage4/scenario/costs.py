"""The costs of a step, which are counted from the true state: numbers of hosts and of events.

A host *counts* if Red can take it and lose it: all users' hosts and servers but the one in the
contractor's network on which Red begins. Nobody can take a router or the internet's host.
"""

from __future__ import annotations

from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES

COSTS = (
    # Hosts that count, at the end of the step: without a session of Red, with sessions of users'
    # rights alone, and with a session of root's rights.
    "clean_hosts",
    "user_hosts",
    "root_hosts",
    # Red's actions that succeeded in this step.
    "impacts",
    "degrades",
    # Blue's actions that took effect in this step, whether or not they changed anything.
    "restores",
    "removes",
    # The Restores and Removes on hosts without a session of Red just before, and on hosts with one.
    "healthy_recoveries",
    "counter_actions",
    "blocks",
    "decoys",
    "analyses",
    # Hosts on which a Restore was in progress or took effect.
    "restore_steps",
    # Pairs of a zone and another zone whose traffic it blocks, at the end of the step.
    "blocked_pairs",
    # Greens' work and access to servers that failed, and the two causes that there are. A block is
    # the only reason why access fails. Work fails on degraded and stopped services alone, and only
    # Red degrades or stops services: Blue's Restore leaves all of them at full strength.
    "green_failures",
    "blue_failures",
    "red_failures",
    "green_work",
    # The sum of restore_steps and blue_failures.
    "downtime",
    # 1 if Red has a session in a zone that Blue defends, at the end of the step.
    "red_present",
    # What the challenge charges for the Restores that were handed in.
    "action_cost",
)
(
    CLEAN_HOSTS,
    USER_HOSTS,
    ROOT_HOSTS,
    IMPACTS,
    DEGRADES,
    RESTORES,
    REMOVES,
    HEALTHY_RECOVERIES,
    COUNTER_ACTIONS,
    BLOCKS,
    DECOYS,
    ANALYSES,
    RESTORE_STEPS,
    BLOCKED_PAIRS,
    GREEN_FAILURES,
    BLUE_FAILURES,
    RED_FAILURES,
    GREEN_WORK,
    DOWNTIME,
    RED_PRESENT,
    ACTION_COST,
) = range(len(COSTS))
FIRST_LEVEL = len(COSTS)
LEVELS = tuple(f"level {host}" for host in HOST_NAMES)
"""By host's number: what Red holds at the end of the step. 0: the host does not count, is not in
this network, or has no session of Red; 1: a user's session; 2: root's."""
EVALUATED = (*COSTS, *LEVELS)
"""All columns, as evaluations have them. A training has `COSTS` alone."""
COSTS_OF_BLUE = {
    "Analyse": ANALYSES,
    "Remove": REMOVES,
    "Restore": RESTORES,
    "BlockTrafficZone": BLOCKS,
    "DeployDecoy": DECOYS,
}
"""By kind of Blue's actions: the column that counts those which took effect."""
COSTS_OF_RED = {"Impact": IMPACTS, "DegradeServices": DEGRADES}
"""By kind of Red's actions: the column that counts those which succeeded."""
