"""The measures that the challenges share: who holds the hosts, and which hosts Blue recovers."""

from __future__ import annotations

from collections.abc import Sequence

from workflow_rl.evaluation.measures import Measure, share, total

HOSTS = ("clean_hosts", "user_hosts", "root_hosts")
RECOVERIES = ("restores", "removes")


def of_hosts(which: str) -> tuple[Measure, Measure, Measure]:
    """Return measures of clean hosts and of hosts that Red holds. which: the hosts, in words."""
    unit = "share of host-steps"
    return (
        Measure(
            *("hosts clean", unit, f"{which} on which Red has no session at the end of a step."),
            share(HOSTS[:1], HOSTS),
            more_is_better=True,
        ),
        Measure(
            *("hosts at user level", unit),
            f"{which} on which Red has sessions at the end of a step, none of them with the rights "
            "of root or SYSTEM.",
            share(HOSTS[1:2], HOSTS),
        ),
        Measure(
            *("hosts at root level", unit),
            f"{which} on which Red has a session with the rights of root or SYSTEM at the end of a "
            "step.",
            share(HOSTS[2:], HOSTS),
        ),
    )


OF_RECOVERIES = (
    Measure(
        *("recoveries", "actions", "Blue's Removes and Restores that take effect."),
        total(*RECOVERIES),
    ),
    Measure(
        *("healthy recoveries", "actions"),
        "Recoveries that take effect on a host without a session of Red.",
        total("healthy_recoveries"),
    ),
    Measure(
        *("precision of recoveries", "share of actions"),
        "Recoveries that take effect on a host with a session of Red beyond its foothold.",
        share(["counter_actions"], RECOVERIES),
        more_is_better=True,
    ),
)


def table_of(measures: Sequence[Measure]) -> list[tuple[str, str, str]]:
    """Return a table of measures, the heading first."""
    rows = [(measure.name, measure.unit, measure.meaning) for measure in measures]
    return [("measure", "unit", "what it counts"), *rows]
