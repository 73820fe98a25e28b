"""The measures that the challenges share: who holds the hosts, and which hosts Blue recovers."""

from collections.abc import Iterator, Sequence

from workflow_rl.evaluation.measures import Measure, share, total

HOSTS = ("clean_hosts", "user_hosts", "root_hosts")
RECOVERIES = ("restores", "removes")


def of_hosts(which: str) -> Iterator[Measure]:
    """Yield measures of clean hosts and of hosts that Red holds. which: the hosts, in words."""
    held = {
        "clean": "has no session",
        "at user level": "has sessions, none of them with the rights of root or SYSTEM,",
        "at root level": "has a session with the rights of root or SYSTEM",
    }
    for cost, (level, what) in zip(HOSTS, held.items(), strict=True):
        meaning = f"{which} on which Red {what} at the end of a step."
        read = share([cost], HOSTS)
        yield Measure(f"hosts {level}", "share of host-steps", meaning, read, level == "clean")


OF_RECOVERIES = (
    Measure(
        "recoveries",
        "actions",
        "Blue's Removes and Restores that take effect.",
        total(*RECOVERIES),
    ),
    Measure(
        "healthy recoveries",
        "actions",
        "Recoveries that take effect on a host without a session of Red.",
        total("healthy_recoveries"),
    ),
    Measure(
        "precision of recoveries",
        "share of actions",
        "Recoveries that take effect on a host with a session of Red beyond its foothold.",
        share(["counter_actions"], RECOVERIES),
        more_is_better=True,
    ),
)


def table_of(measures: Sequence[Measure]) -> list[tuple[str, str, str]]:
    """Return a table of measures, the heading first."""
    rows = [(measure.name, measure.unit, measure.meaning) for measure in measures]
    return [("measure", "unit", "what it counts"), *rows]
