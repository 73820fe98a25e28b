from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from workflow_rl.cage4.cyborg.checkout import COMMIT, VARIABLE, CheckoutError, cyborg_checkout
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.cyborg.simulators import make_simulator


def assert_one_clear_line(error: pytest.ExceptionInfo[CheckoutError]) -> None:
    text = str(error.value)
    assert "\n" not in text
    assert VARIABLE in text
    assert f"git -C cage-challenge-4 checkout {COMMIT}" in text


def test_a_missing_name_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(CheckoutError, match="--cyborg4") as error:
        cyborg_checkout()
    assert_one_clear_line(error)


def test_a_folder_without_cyborg_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(CheckoutError, match=str(tmp_path)) as error:
        cyborg_checkout()
    assert_one_clear_line(error)


def test_another_commit_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkout / "CybORG", copy / "CybORG")
    monkeypatch.setenv(VARIABLE, str(copy))
    assert cyborg_checkout() == copy
    with (copy / "CybORG" / "Simulator" / "State.py").open("a") as file:
        file.write("changed = True\n")
    with pytest.raises(CheckoutError, match="not that of commit") as error:
        cyborg_checkout()
    assert_one_clear_line(error)


def test_an_import_leaves_nothing_behind(checkout: Path) -> None:
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
def test_wrong_arguments_of_simulators_are_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_simulator(*arguments)  # type: ignore[arg-type]
