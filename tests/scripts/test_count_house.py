import ast

import pytest
from click.testing import CliRunner

from scripts import count_house

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


def test_what_a_module_binds_and_defines():
    tree = ast.parse(SOURCE)
    assert sorted(count_house.bindings(tree)) == ["each", "left", "one", "own", "self"]
    assert list(count_house.public_definitions(tree)) == ["shown", "Shown"]


def test_a_link_counts_once():
    files = count_house.lines_of("agents/*.py", "workflow_rl/*.py")
    assert "agents/algorithm.py" in files
    assert not any(name.startswith("workflow_rl/agents") for name in files)


def test_guests_that_have_the_same_are_twins():
    tree = ast.parse("class Shown: pass")
    guests = ["workflow_rl/cage2/env/shown.py", "workflow_rl/cage4/env/shown.py"]
    handed_in = "workflow_rl/cage2/submission/files/agent.py"
    assert count_house.homes(dict.fromkeys([*guests, handed_in], tree)) == {"Shown": guests}
    assert count_house.are_twins(guests)
    assert not count_house.are_twins([*guests, "workflow_rl/runs/shown.py"])
    assert not count_house.are_twins(["workflow_rl/cage2/shown.py", guests[1]])


def test_env_classes_and_ways_of_acting_are_those_of_cage2():
    players = ast.parse("""
class Player:
    def decide(self): ...

class Careful(Player):
    def decide(self): ...

class Attacker:
    def begin(self): ...
    def act(self): ...

class ShownEnvs: ...
class _HiddenEnv: ...
""")
    trees = {"workflow_rl/cage2/env/players.py": players, "workflow_rl/cage4/players.py": players}
    assert count_house.ways_of_acting(trees) == ["Player"]
    assert count_house.env_classes(trees) == ["ShownEnvs"]


def test_a_file_knows_an_action_by_its_name_or_its_constant():
    sources = {
        "a.py": 'KINDS = "Sleep", "Restore User1"',
        "b.py": "from tables import RESTORE",
        "c.py": '"""Restore is not known here."""\nrestore = 1',
    }
    trees = {f"workflow_rl/cage2/{file}": ast.parse(source) for file, source in sources.items()}
    assert count_house.files_that_know(["Sleep", "Restore"], trees) == 2


def test_error_classes_derive_from_exceptions_of_python():
    sources = {
        "a.py": "class FirstError(ValueError): ...\nclass Record: ...",
        "b.py": "class SecondError(FirstError): ...",
    }
    trees = {file: ast.parse(source) for file, source in sources.items()}
    assert count_house.error_classes(trees) == ["FirstError", "SecondError"]


def test_a_file_asks_for_a_population_by_a_function_or_the_files_name():
    sources = {
        "a.py": "from folder import POPULATION_FILE",
        "b.py": "folder.is_population(path)",
        "c.py": 'RECORDS = ["population.json"]\nruns_in(path)',
        "d.py": 'POPULATION_FILE = "population.json"',
    }
    trees = {file: ast.parse(source) for file, source in sources.items()}
    assert count_house.files_asking_of_population(trees) == ["a.py", "b.py"]


def test_what_is_over_its_limit_is_named(monkeypatch):
    assert all((count_house.ROOT / name).is_file() for name in count_house.CONFIG)
    found = count_house.limits()
    monkeypatch.setattr(count_house, "figures", lambda: found)
    assert CliRunner().invoke(count_house.main).exit_code == 0
    found["circles of files"] += 1
    result = CliRunner().invoke(count_house.main)
    assert result.exit_code == 1
    assert result.output.endswith("over its limit: circles of files\n")
    found = {**count_house.limits(), next(iter(count_house.ONCE)): 0}
    result = CliRunner().invoke(count_house.main)
    assert result.output.endswith("nothing was counted: configs made for a run\n")


@pytest.mark.parametrize(
    ("source", "knows"),
    [
        ("from workflow_rl.runs.signature import changed", True),
        ("config.require_named()", True),
        ("click.Option(['--trust'])", True),
        ("load_agent(run, trust=True)", True),
        ("environment.make_envs(1)  # --trust", False),
        ('"""Takes --trust."""; print("do not trust them")', False),
    ],
)
def test_files_that_know_trust(source, knows):
    assert count_house.knows_trust(ast.parse(source)) == knows
