"""The environment and the algorithm that a command line names decide its options."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.workflow_rl.commands.any_env_commands import CART_POLE, invoke, refused
from workflow_rl import plug_ins
from workflow_rl.commands.main import main
from workflow_rl.commands.options_by_env import Look, env_of_agent, env_of_agents, named_env
from workflow_rl.environments.challenge import Guest
from workflow_rl.environments.source import guests
from workflow_rl.errors import UserError

CAGE4 = ("--env", "workflow_rl/CAGE4-v0")
SHORT = ("--max-steps", "6", "--episodes", "1", "--quiet")


@pytest.fixture(scope="module")
def team_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "team"
    tiny = ("--total-episodes", "2", "--n-envs", "2", "--n-workers", "1", "--hidden-sizes", "4")
    result = invoke("train-async", *CAGE4, "--max-steps", "6", *tiny, "--run-dir", str(path))
    assert result.exit_code == 0, result.output
    return path


def test_a_folder_says_which_options_there_are(team_run: Path, tmp_path: Path) -> None:
    red = ("--red-agent", "FiniteStateRedAgent")
    assert invoke("evaluate", str(team_run), *red, *SHORT).exit_code == 0
    # The value of an option that is not known yet is not the agent.
    assert invoke("evaluate", *red, str(team_run), *SHORT).exit_code == 0
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(team_run / "checkpoint.safetensors", alone)
    assert invoke("evaluate", str(alone), *red, *SHORT).exit_code == 0
    refused(invoke("evaluate", str(team_run), "--red-agent", "B_lineAgent"), "FiniteStateRed")


def test_a_resumed_run_says_so_too(team_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(team_run, path)
    more = ("--total-episodes", "4", "--quiet", "--cyborg4", str(tmp_path))
    result = invoke("train-async", "--resume", "--run-dir", str(path), *more)
    assert result.exit_code == 0, result.output


def test_a_name_that_two_challenges_have(team_run: Path) -> None:
    played = invoke("evaluate", "champion", *CAGE4, "--red-agent", "FiniteStateRedAgent", *SHORT)
    assert played.exit_code == 0, played.output
    assert env_of_agents(Look(words=["champion"])) == "workflow_rl/CAGE2-v0"
    assert env_of_agents(Look({"env": "x"}, ["champion"])) == "x"
    assert env_of_agents(Look({"env": "x"}, [str(team_run)])) == CAGE4[1]
    assert env_of_agent(Path("nobody")) is None


def test_the_option_counts_before_the_preset() -> None:
    assert named_env(Look({"preset": "cage4-quick"})) == CAGE4[1]
    assert named_env(Look({"preset": "cage4-quick", "env": "CartPole-v1"})) == "CartPole-v1"
    assert named_env(Look({"preset": "none"})) == next(iter(guests))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("own_algorithm:REINFORCE", "--passes=2"),
        ("own_advantages:DECOUPLED", "--critic-lambda=0.9"),
    ],
)
def test_a_run_with_an_own_algorithm_is_resumed(name: str, setting: str, tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    algorithm = ("--algorithm", f"examples.{name}", setting)
    tiny = ("--total-steps", "60", "--n-envs", "2", "--n-workers", "1", "--quiet")
    begun = invoke("train-async", *CART_POLE, *algorithm, *tiny, "--run-dir", path)
    assert begun.exit_code == 0, begun.output
    again = invoke("train-async", "--resume", path, "--total-steps", "900", "--quiet")
    assert again.exit_code == 0, again.output


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Further entry points, as if another package brought them."""
    points: list[EntryPoint] = []

    def of_group(group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(plug_ins, "entry_points", of_group)
    plug_ins.plug_ins.cache_clear()
    yield points
    monkeypatch.undo()
    plug_ins.plug_ins.cache_clear()


def point(group: str, name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, f"workflow_rl.{group}")


class Misnamed(Guest):
    env_id = "another/Name-v0"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nowhere:Guest", "cannot be imported"),
        (f"{__name__}:point", "is no class of a Guest"),
        (f"{__name__}:Misnamed", "calls itself another/Name-v0"),
    ],
)
def test_a_guest_that_is_none_harms_itself_alone(
    value: str, says: str, installed: list[EntryPoint]
) -> None:
    installed += [point("guests", "bad/Env-v0", value), point("commands", "bad", "nowhere:bad")]
    with pytest.raises(UserError, match=says):
        guests["bad/Env-v0"]
    refused(invoke("train-async", "--env", "bad/Env-v0"), says)
    assert "bad/Env-v0" not in [guest.env_id for guest in guests.importable()]
    refused(invoke("train-async", *CART_POLE, "--hiden-sizes", "3"), "--hidden-sizes")
    assert "train-async" in CliRunner().invoke(main, ["--help"]).output
    assert invoke("export", "--help").exit_code == 0


GROUPS = ("guests", "default_env", "presets", "released", "commands", "algorithms")


@pytest.mark.parametrize("group", [*GROUPS, "gymnasium", "gymnasium_vector"])
def test_every_entry_point_of_this_package_exists(group: str) -> None:
    points = [p for p in plug_ins.plug_ins(group).values() if plug_ins.is_ours(p)]
    assert points
    for one in points:
        assert callable(one.load()), one


@pytest.mark.parametrize("group", ["presets", "released"])
def test_entry_points_name_what_guests_bring_and_nothing_else(group: str) -> None:
    points = plug_ins.plug_ins(group)
    for name, one in points.items():
        assert name in getattr(one.load(), group), one
    assert set(points) == {name for guest in guests.values() for name in getattr(guest, group)}


def test_every_released_agent_is_there() -> None:
    for guest in guests.values():
        for name, path in guest.released.items():
            assert path.exists(), (guest.env_id, name)


def test_every_command_that_help_lists_can_be_called() -> None:
    listed = invoke("--help").output.partition("Train:")[2]
    assert "Others:" not in listed
    names = re.findall(r"^  (\w\S*)  ", listed, re.M)
    assert {"train-async", "describe-scenario"} <= set(names)
    for name in names:
        assert invoke(name, "--help").exit_code == 0, name


@pytest.mark.parametrize("text", ["", "[", "[project]\n", '[project]\nname = "other"\n'])
def test_a_file_of_somebody_else_beside_the_package_is_not_believed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    monkeypatch.setattr(plug_ins, "_PYPROJECT", file)
    plug_ins._of_checkout.cache_clear()
    plug_ins.plug_ins.cache_clear()
    try:
        # What is installed counts.
        assert "ppo" in plug_ins.plug_ins("algorithms")
    finally:
        monkeypatch.undo()
        plug_ins._of_checkout.cache_clear()
        plug_ins.plug_ins.cache_clear()
