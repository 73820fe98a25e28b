"""The environment and the algorithm that a command line names decide its options."""

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.cli import CART_POLE, call, refused, said_by
from workflow_rl import plug_ins
from workflow_rl.commands.main import places
from workflow_rl.commands.options_by_env import Look, env_of_agent, env_of_agents, named_env
from workflow_rl.environments.challenge import Guest
from workflow_rl.environments.source import guests
from workflow_rl.errors import UserError
from workflow_rl.runs.folder import read_config

CAGE4_ID = "workflow_rl/CAGE4-v0"
CAGE4, RED = f"--env {CAGE4_ID}", "--red-agent FiniteStateRedAgent"
SHORT = "--max-steps 6 --episodes 1 --quiet"


@pytest.fixture(scope="module")
def team_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "team"
    tiny = "--max-steps 6 --total-episodes 2 --n-envs 2 --n-workers 1 --hidden-sizes 4"
    said_by("train-async", CAGE4, tiny, "--run-dir", path)
    return path


def test_a_folder_says_which_options_there_are(team_run, tmp_path):
    said_by("evaluate", team_run, RED, SHORT)
    # The value of an option that is not known yet is not the agent.
    said_by("evaluate", RED, team_run, SHORT)
    shutil.copy(team_run / "checkpoint.safetensors", tmp_path)
    said_by("evaluate", tmp_path, RED, SHORT)
    refused(call("evaluate", team_run, "--red-agent B_lineAgent"), "FiniteStateRed")


def test_a_resumed_run_says_so_too(team_run, tmp_path):
    path = shutil.copytree(team_run, tmp_path / "run")
    more = ["--total-episodes 4 --quiet --cyborg4", tmp_path]
    said_by("train-async --resume --run-dir", path, *more)


def test_a_name_that_two_challenges_have(team_run):
    said_by("evaluate champion", CAGE4, RED, SHORT)
    assert env_of_agents(Look(words=["champion"])) == "workflow_rl/CAGE2-v0"
    assert env_of_agents(Look({"env": "x"}, ["champion"])) == "x"
    assert env_of_agents(Look({"env": "x"}, [str(team_run)])) == CAGE4_ID
    assert env_of_agent(Path("nobody")) is None


def test_the_option_counts_before_the_preset():
    assert named_env(Look({"preset": "cage4-quick"})) == CAGE4_ID
    assert named_env(Look({"preset": "cage4-quick", "env": "CartPole-v1"})) == "CartPole-v1"
    assert named_env(Look({"preset": "none"})) == next(iter(guests))


@pytest.mark.parametrize(
    ("name", "option", "settings"),
    [
        ("own_algorithm:REINFORCE", "--setting passes=2", {"passes": 2}),
        ("own_advantages:DECOUPLED", "--critic-lambda=0.9", {"critic_lambda": 0.9}),
    ],
)
def test_a_run_with_an_own_algorithm_is_resumed(name, option, settings, tmp_path):
    own = f"--algorithm examples.{name} {option}"
    tiny = "--total-steps 60 --n-envs 2 --n-workers 1 --quiet"
    said_by("train-async", CART_POLE, own, tiny, "--run-dir", tmp_path)
    said_by("train-async --total-steps 900 --quiet --resume", tmp_path)
    assert read_config(tmp_path).settings.to_dict().items() >= settings.items()


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
def test_a_guest_that_is_none_harms_itself_alone(value, says, installed):
    installed += [point("guests", "bad/Env-v0", value), point("commands", "bad", "nowhere:bad")]
    with pytest.raises(UserError, match=says):
        guests["bad/Env-v0"]
    refused(call("train-async --env bad/Env-v0"), says)
    assert "bad/Env-v0" not in [guest.env_id for guest in guests.importable()]
    refused(call("train-async", CART_POLE, "--hiden-sizes 3"), "--hidden-sizes")
    assert "train-async" in said_by("--help")
    said_by("export --help")


GROUPS = ("guests", "default_env", "presets", "released", "commands", "algorithms")


@pytest.mark.parametrize("group", [*GROUPS, "gymnasium", "gymnasium_vector"])
def test_every_entry_point_of_this_package_exists(group):
    points = [p for p in plug_ins.plug_ins(group).values() if plug_ins.is_ours(p)]
    assert points
    for one in points:
        assert callable(one.load()), one


@pytest.mark.parametrize("group", ["presets", "released"])
def test_entry_points_name_what_guests_bring_and_nothing_else(group):
    points = plug_ins.plug_ins(group)
    for name, one in points.items():
        assert name in getattr(one.load(), group), one
    assert set(points) == {name for guest in guests.values() for name in getattr(guest, group)}


def test_every_command_that_help_lists_can_be_called():
    listed = said_by("--help").partition("Train:")[2]
    assert "Others:" not in listed
    # Whole sentences.
    assert "..." not in listed
    assert listed.count(".\n") == len(places())
    names = re.findall(r"^  (\w\S*)  ", listed, re.M)
    assert {"train-async", "describe-scenario"} <= set(names)
    for name in names:
        said_by(name, "--help")


@pytest.mark.parametrize("text", ["", "[", "[project]\n", '[project]\nname = "other"\n'])
def test_a_file_of_somebody_else_beside_the_package_is_not_believed(text, tmp_path, monkeypatch):
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
