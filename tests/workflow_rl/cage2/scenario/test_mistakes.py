"""What a user who types a scenario wrongly, or asks for what it cannot have, is told."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.commands.main import main
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.preflight import hints

FAMILY = Cage2Guest.released["any-network"].with_suffix(".yaml")


def refused(*words: object) -> str:
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 2, result.output
    return result.output.splitlines()[-1]


def test_a_slip_in_a_scenarios_name_names_those_there_are() -> None:
    for command in (("train-async", "--dry-run"), ("evaluate", "champion")):
        assert "Did you mean scenario2" in refused(*command, "--scenario", "senario2")


def test_a_file_of_the_users_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "office.yaml"
    path.write_text("mine")
    assert "exists already" in refused("describe-scenario", "scenario2", "--write", path)
    assert path.read_text() == "mine"


def test_cyborg_is_not_said_to_play_what_compiled_code_plays() -> None:
    for agent, why in (("any-network", "plays one scenario"), ("champion1b", "CAGE-1's package")):
        line = refused("evaluate", agent, "--simulator", "cyborg", "--episodes", 2)
        assert "--simulator" in line
        assert why in line


def test_networks_made_for_one_size_are_named_before_a_family_is_trained_on() -> None:
    def told(network: str) -> bool:
        args = {"scenario": str(FAMILY), "simulator": "compiled", "observation": "history"}
        args["actions"] = "by-host"
        config = TrainConfig("async", env_args=args, settings={"network": network})
        return any("is made for one number of hosts" in hint for hint in hints(config))

    assert [told(network) for network in ("mlp", "gru", "graph")] == [True, True, False]
