import re
from collections import Counter

import numpy as np
import pytest

from workflow_rl.cage2.scenario2 import CONTESTED, HOSTS
from workflow_rl.workflows.cage2_rules import UNIT_TYPES
from workflow_rl.workflows.envs import Milestones
from workflow_rl.workflows.order import NOBODY, Workflow, allowed, due, parsed, precedence, ranks_of
from workflow_rl.workflows.rules import fixes_made, ordered_obs

ABC = Workflow(("a", "b", "c"), (("x",), ("y",), ("z",)))
UNITS = parsed(UNIT_TYPES, HOSTS, CONTESTED)


def test_a_text_names_groups_and_constraints() -> None:
    text = "# what counts\nservers: Op_Server0 Enterprise2\nusers: User0 User1\nservers < users"
    workflow = parsed(text, HOSTS, CONTESTED)
    assert workflow.groups == ("servers", "users")
    assert workflow.members == (("Op_Server0", "Enterprise2"), ("User1",))
    assert workflow.orders() == [(0, 1)]


def test_a_group_that_never_needs_fixing_has_no_say() -> None:
    assert len(UNITS.orders()) == 24
    first, last = "defender,users,enterprise,op_hosts,op_server", "users,enterprise,op_hosts"
    assert UNITS.order_named(first) == UNITS.order_named(f"{last},op_server")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: User1", "2 to 32 groups are needed"),
        ("a: User1; b: User0 Defender", "two of which can be fixed"),
        ("a: User1; b: User9", "'User9' is none of Defender"),
        ("a: User1; b: User1", "User1 is given twice"),
        ("a: User1; a: User2", "the group a is given twice"),
        ("a: User1; b: User2; a < c", "'c' is no group"),
        ("a: User1; b: User2; a < b; b < a", "form a circle"),
        ("a: User1; b User2", "'b User2' is neither a group"),
    ],
)
def test_what_is_no_workflow_is_said_in_a_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parsed(text, HOSTS, CONTESTED)


def test_an_order_names_every_group_once_and_keeps_the_constraints() -> None:
    workflow = Workflow(ABC.groups, ABC.members, ((0, 1), (1, 2)))
    assert workflow.orders() == [(0, 1, 2)]
    assert workflow.order_named("a, b, c") == (0, 1, 2)
    with pytest.raises(ValueError, match="breaks the constraint a < c"):
        Workflow(ABC.groups, ABC.members, ((0, 1), (1, 2))).order_named("c,a,b")
    with pytest.raises(ValueError, match="has to name each of a, b, c once"):
        workflow.order_named("a,b,b")


def test_orders_that_are_drawn_are_those_that_are_listed() -> None:
    workflow = Workflow(ABC.groups, ABC.members, ((2, 0),))
    random = np.random.default_rng(0)
    drawn = Counter(workflow.drawn(random) for _ in range(300))
    assert set(drawn) == set(workflow.orders())
    assert set(ABC.orders()) == {ABC.drawn(random) for _ in range(200)}


def test_some_orders_are_different_ones_that_keep_the_constraints() -> None:
    names = tuple("abcdefghijk")
    many = Workflow(names, tuple((name,) for name in names), ((3, 0),))
    orders = many.some_orders(500, np.random.default_rng(0))
    assert len(set(orders)) == 500
    assert all(order.index(3) < order.index(0) for order in orders)
    assert len(set(ABC.some_orders(5, np.random.default_rng(0)))) == 5
    assert set(ABC.some_orders(7, np.random.default_rng(0))) == set(ABC.orders())


def test_bits_of_precedence_differ_by_kendalls_distance() -> None:
    bits = precedence(ranks_of([(0, 1, 2), (1, 0, 2), (2, 1, 0)]))
    assert bits.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 0]]


def test_who_is_due_is_the_first_in_need_and_nothing_else_may_be_fixed() -> None:
    needs = np.array([[True, False, True], [False, False, False], [True, True, True]])
    wanted = due(needs, ranks_of([(1, 2, 0)] * 3))
    assert wanted.tolist() == [2, NOBODY, 1]
    fixes = np.tile([NOBODY, 0, 1, 2], (3, 1))
    assert allowed(fixes, wanted).tolist() == [
        [True, False, False, True],
        [True, True, True, True],
        [True, False, True, False],
    ]


def test_fixes_break_the_order_or_keep_to_it_where_it_decides() -> None:
    rules = Milestones(ABC, 3, lambda needs: needs, lambda _: [NOBODY, 0, 1, 2])
    needs = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]])
    fixes = fixes_made(rules, needs, ranks_of([(0, 1, 2)]), np.array([1, 3, 3, 1, 1, 0]))
    assert fixes.broken.tolist() == [False, True, False, True, False, False]
    assert fixes.decided.tolist() == [True, True, False, False, False, False]


def test_an_agent_is_shown_the_order() -> None:
    rules = Milestones(ABC, 3, lambda needs: needs, lambda _: [NOBODY, 0, 1, 2])
    needs = np.array([[1, 0, 1], [0, 0, 0]], np.uint8)
    ranks = ranks_of([(2, 0, 1), (0, 1, 2)])
    order = [[1, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]]
    due = [[0, 0, 1], [0, 0, 0]]
    assert ordered_obs(rules, needs, ranks, "penalty").tolist() == [
        [*order[0], *due[0]],
        [*order[1], *due[1]],
    ]
    assert ordered_obs(rules, needs, ranks, "mask").tolist() == [
        [*order[0], 1, 0, 0, 1],
        [*order[1], 1, 1, 1, 1],
    ]
