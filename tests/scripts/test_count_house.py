"""The names and lines that `count_house.py` counts."""

from __future__ import annotations

import ast

from scripts.count_house import bindings, lines_of, public_definitions

SOURCE = """
def shown(one, *, own):
    each = [left for left in one]
    return each

class _Hidden:
    pass

class Shown:
    def method(self):
        pass
"""


def test_what_a_module_binds_and_defines() -> None:
    tree = ast.parse(SOURCE)
    assert sorted(bindings(tree)) == ["each", "left", "one", "own", "self"]
    assert list(public_definitions(tree)) == ["shown", "Shown"]


def test_a_link_counts_once() -> None:
    files = lines_of("agents/*.py", "workflow_rl/*.py")
    assert "agents/algorithm.py" in files
    assert not any(name.startswith("workflow_rl/agents") for name in files)
