"""Workflows: groups of targets, and the orders in which the groups may be fixed.

An order is a tuple of all groups' numbers: the first group is fixed first. Submissions contain a
copy of this module, so it needs only NumPy.
"""

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Order: TypeAlias = tuple[int, ...]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]

MOST_GROUPS = 32
MOST_LISTED_ORDERS = 5040
"""`Workflow.orders` lists at most this number of orders, which seven groups have."""
NOBODY = -1
"""This number means "no group" in an array of groups' numbers."""


@dataclass(frozen=True)
class Workflow:
    """Groups of targets, with constraints on the order of the groups.

    groups: the names of the groups. members: for each group, its targets that can be fixed. before:
    pairs of groups' numbers; the first group comes before the second in every order. A group
    without members never needs fixing, so its place in an order has no effect.
    """

    groups: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    before: tuple[tuple[int, int], ...] = ()

    @property
    def contested(self) -> list[int]:
        """The numbers of the groups that may need fixing."""
        return [group for group, members in enumerate(self.members) if members]

    def name_of(self, order: Order) -> str:
        """Return an order as a text that `order_named` can read. The text leaves out groups that
        never need fixing."""
        return ",".join(self.groups[group] for group in order if self.members[group])

    def order_named(self, text: str) -> Order:
        """Return the order that a text such as "servers,users" describes. The text may leave out
        groups that never need fixing. Raises ValueError."""
        names = [name.strip() for name in text.split(",")]
        order = tuple(self._number(name) for name in names)
        missing = [self.groups[group] for group in self.contested if group not in order]
        if len(set(order)) < len(order) or missing:
            needed = ", ".join(self.groups[group] for group in self.contested)
            raise ValueError(f"{text!r} has to name each of {needed} once")
        for first, second in self.implied:
            both_named = first in order and second in order
            if both_named and order.index(first) > order.index(second):
                raise ValueError(
                    f"{text!r} breaks the constraint {self.groups[first]} < {self.groups[second]}"
                )
        return self._whole([group for group in order if group in self.contested])

    def _number(self, name: str) -> int:
        if name not in self.groups:
            raise ValueError(f"{name!r} is no group: choose of {', '.join(self.groups)}")
        return self.groups.index(name)

    @functools.cached_property
    def implied(self) -> frozenset[tuple[int, int]]:
        """The pairs of `before`, and all pairs that these pairs imply."""
        pairs = set(self.before)
        # With `middle` in the outermost loop, one pass finds all pairs (Warshall, 1962).
        for middle, first, second in itertools.product(range(len(self.groups)), repeat=3):
            if (first, middle) in pairs and (middle, second) in pairs:
                pairs.add((first, second))
        return frozenset(pairs)

    def _whole(self, contested: Sequence[int]) -> Order:
        """Return an order of all groups. Groups that never need fixing stand at the end, in a fixed
        order, so that they never make two orders different."""
        others = [group for group, members in enumerate(self.members) if not members]
        return (*contested, *others)

    def orders(self) -> list[Order]:
        """Return all orders. Raises ValueError if there are more than MOST_LISTED_ORDERS."""
        listed = list(itertools.islice(self._extensions([]), MOST_LISTED_ORDERS + 1))
        if len(listed) > MOST_LISTED_ORDERS:
            raise ValueError(f"there are more than {MOST_LISTED_ORDERS:,} orders")
        return [self._whole(contested) for contested in listed]

    def _extensions(self, begun: list[int]) -> Iterator[list[int]]:
        """Yield all orders of the contested groups that begin with the groups of `begun`."""
        next_groups = self._next_groups(begun)
        if not next_groups:
            yield begun
        for group in next_groups:
            yield from self._extensions([*begun, group])

    def _next_groups(self, begun: Collection[int]) -> list[int]:
        """Return the contested groups that may follow the groups of `begun`."""
        waiting = [group for group in self.contested if group not in begun]
        held_up = {second for first, second in self.implied if first in waiting}
        return [group for group in waiting if group not in held_up]

    def drawn(self, random: np.random.Generator) -> Order:
        """Return a random order. Without constraints, all orders are equally likely."""
        order = list[int]()
        while next_groups := self._next_groups(order):
            order.append(next_groups[int(random.integers(len(next_groups)))])
        return self._whole(order)

    def some_orders(self, n_orders: int, random: np.random.Generator) -> list[Order]:
        """Return up to `n_orders` different orders, drawn at random."""
        try:
            listed = self.orders()
        except ValueError:  # There are so many that two draws are hardly ever equal.
            drawn = [self.drawn(random) for _ in range(n_orders)]
            return list(dict.fromkeys(drawn))
        return [listed[place] for place in random.permutation(len(listed))[:n_orders]]


def parsed(text: str, targets: Collection[str], fixable: Collection[str]) -> Workflow:
    """Return the workflow that a text describes. Raises ValueError.

    A line is "group: target target ..." or a constraint, "group < group". Lines end with a line
    break or a semicolon. A comment begins with #. targets: all allowed names of targets. fixable:
    the targets that can be fixed; only these become members.
    """
    targets_of_groups, constraints = _groups_and_constraints(text)
    groups = tuple(targets_of_groups)
    members = list[tuple[str, ...]]()
    for group_targets in targets_of_groups.values():
        members.append(tuple(target for target in group_targets if target in fixable))
    _require_targets(list(itertools.chain(*targets_of_groups.values())), targets)
    workflow = Workflow(groups, tuple(members))
    if not 2 <= len(groups) <= MOST_GROUPS or len(workflow.contested) < 2:
        raise ValueError(f"2 to {MOST_GROUPS} groups are needed, two of which can be fixed")
    pairs = list[tuple[int, int]]()
    for names in constraints:
        pairs += itertools.pairwise(workflow._number(name) for name in names)
    workflow = Workflow(groups, tuple(members), tuple(pairs))
    if any(first == second for first, second in workflow.implied):
        raise ValueError("the constraints form a circle")
    return workflow


def _groups_and_constraints(text: str) -> tuple[dict[str, tuple[str, ...]], list[list[str]]]:
    """Return the targets of each group, and the names of groups in each constraint."""
    targets_of_groups = dict[str, tuple[str, ...]]()
    constraints = list[list[str]]()
    for whole_line in text.replace(";", "\n").splitlines():
        line = whole_line.partition("#")[0].strip()
        before_colon, colon, after_colon = line.partition(":")
        name = before_colon.strip()
        if colon and name.replace("_", "").replace("-", "").isalnum():
            if name in targets_of_groups:
                raise ValueError(f"the group {name} is given twice")
            targets_of_groups[name] = tuple(after_colon.split())
        elif "<" in line and not colon:
            constraints.append([part.strip() for part in line.split("<")])
        elif line:
            raise ValueError(
                f"{line!r} is neither a group, such as 'users: User1 User2', nor a constraint, "
                "such as 'servers < users'"
            )
    return targets_of_groups, constraints


def _require_targets(named: Sequence[str], targets: Collection[str]) -> None:
    """Raise ValueError if a name is not in `targets`, or occurs twice."""
    for target in named:
        if target not in targets:
            raise ValueError(f"{target!r} is none of {', '.join(targets)}")
        if named.count(target) > 1:
            raise ValueError(f"{target} is given twice: a target belongs to one group")


def ranks_of(orders: Sequence[Order]) -> Numbers:
    """Return the rank of every group in each order, int64 [M, G]: rank 0 is fixed first."""
    return np.argsort(np.array(orders, np.int64), axis=1)


def precedence(ranks: Numbers) -> NDArray[np.uint8]:
    """Return one bit for each pair of groups, uint8 [M, G (G - 1) / 2]: 1 if the group with the
    smaller number is fixed first. Two orders differ in as many bits as their Kendall distance."""
    first, second = np.triu_indices(ranks.shape[1], 1)
    return (ranks[:, first] < ranks[:, second]).astype(np.uint8)


def due(needs: Bools, ranks: Numbers) -> Numbers:
    """Return, for each order, the first group that needs fixing, int64 [M], or NOBODY.

    needs: bool [M, G]. ranks: [M, G].
    """
    waiting = np.where(needs, ranks, needs.shape[1])
    return np.where(needs.any(axis=1), waiting.argmin(axis=1), NOBODY)


def allowed(fixes: Numbers, due_groups: Numbers) -> Bools:
    """Return whether each action keeps to the order, bool [M, A].

    fixes: the group that each action fixes, int64 [M, A], or NOBODY. An action that fixes nothing
    keeps to every order. While no group needs fixing, no action breaks the order.
    """
    due_column = due_groups[:, None]
    keeps: Bools = (fixes == NOBODY) | (due_column == NOBODY) | (fixes == due_column)
    return keeps
