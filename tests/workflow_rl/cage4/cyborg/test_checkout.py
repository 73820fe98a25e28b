import shutil
import sys

import pytest

from workflow_rl.cage4.cyborg.checkout import COMMIT, VARIABLE, CheckoutError, cyborg_checkout
from workflow_rl.cage4.cyborg.installation import simulators
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.cyborg.simulators import make_simulator


def require_one_clear_line(message: str) -> None:
    """Check that the one line of the error has the message, and how to get the checkout."""
    with pytest.raises(CheckoutError, match=message) as error:
        cyborg_checkout()
    text = str(error.value)
    assert "\n" not in text
    assert VARIABLE in text
    assert f"git -C cage-challenge-4 checkout {COMMIT}" in text


def test_a_missing_name_is_told_with_the_way_to_get_it(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    require_one_clear_line("--cyborg4")


def test_a_folder_without_cyborg_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    require_one_clear_line(str(tmp_path))


def test_another_commit_is_refused(checkout, monkeypatch, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkout / "CybORG", copy / "CybORG")
    monkeypatch.setenv(VARIABLE, str(copy))
    assert cyborg_checkout() == copy
    with (copy / "CybORG" / "Simulator" / "State.py").open("a") as file:
        file.write("changed = True\n")
    require_one_clear_line("differs from commit")


def test_an_import_leaves_nothing_behind(checkout):
    before, paths = dict(sys.modules), list(sys.path)
    cyborg = Cyborg()
    assert cyborg["Simulator.State"].State.__module__ == "CybORG.Simulator.State"
    added = {name.partition(".")[0] for name in sys.modules.keys() - before.keys()}
    assert not added & {"CybORG", "gym", "matplotlib", "prettytable", "pygame", "ray", "yaml"}
    assert all(sys.modules[name] is module for name, module in before.items())
    assert sys.path == paths


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cyborg-4",), "simulator='cyborg-4': choose one of compiled, cyborg"),
        (("cyborg", "B_lineAgent"), "red_agent='B_lineAgent': choose one of FiniteState"),
        (("cyborg", "SleepAgent", 2), "max_steps=2: choose 3 or more"),
    ],
)
def test_wrong_arguments_of_simulators_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        make_simulator(*arguments)  # type: ignore[arg-type]


def test_doctor_tells_of_the_checkout(checkout, tmp_path, monkeypatch):
    (found,) = simulators()
    assert found.text.startswith("commit 8c3c50c")
    assert not found.fix
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (wrong,) = simulators()
    assert "holds no CybORG/env.py" in wrong.text
    assert wrong.fix.startswith("git clone")


def test_no_checkout_is_no_fault(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (found,) = simulators()
    assert not found.fix
