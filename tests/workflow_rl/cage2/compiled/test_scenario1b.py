"""CAGE Challenge 1: its scenario, and its rules in the compiled simulator."""

import hashlib
import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest

from workflow_rl.cage2.cyborg.simulators import make_simulator
from workflow_rl.cage2.scenario.files import read, write_scenario
from workflow_rl.cage2.scenario.loading import played_of, scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS

SCENARIO = Scenario.scenario1b()
OFFICIAL = Path(__file__).parents[5] / "shared" / "cage2" / "scenarios" / "Scenario1b.yaml"
ACTION = {name: index for index, name in enumerate(SCENARIO.action_names)}
OF_CYBORG = "4185c443f28a08845598666ab9dbe8487a143b9cd06011c567e57db0f218ade5"
"""What `traces` returns for `cyborg` with CAGE-1's CybORG at 6d5d9fd."""


def traces(simulator: Any) -> str:
    """Return the digest of nine episodes of 100 steps: observations, rewards and actions."""
    digest = hashlib.sha256()
    kinds = ("Sleep", "Monitor", "Analyse", "Remove", "Misinform", "Restore")
    for seed, red_agent in enumerate(3 * RED_AGENTS):
        draw, obs = random.Random(seed), simulator.reset(seed, red_agent)
        for _ in range(100):
            (kind,) = draw.choices(kinds, (3, 1, 1, 2, 4, 0.3))
            action = draw.choice([name for name in ACTION if name.startswith(kind)])
            obs, reward = simulator.step(ACTION[action])
            step = [[int(bit) for bit in obs], reward, *simulator.texts]
            digest.update(json.dumps(step).encode())
    return digest.hexdigest()


def test_plays_as_the_cyborg_of_challenge_1() -> None:
    assert traces(make_simulator("compiled", 100, scenario=SCENARIO)) == OF_CYBORG


def test_that_cyborg_plays_so() -> None:
    found = importlib.util.find_spec("CybORG")
    if found is None or found.origin is None:
        pytest.skip("CAGE-1's CybORG is not installed")
    if (Path(found.origin).parent / "Shared/Scenarios/Scenario2.yaml").exists():
        pytest.skip("the CybORG that is installed is CAGE-2's")
    assert traces(make_simulator("cyborg", 100, scenario=SCENARIO)) == OF_CYBORG


def test_is_the_network_of_the_official_file() -> None:
    if not OFFICIAL.exists():
        pytest.skip(f"{OFFICIAL} is missing")
    # CAGE-2's repository has the same file with its own images.
    ours, official = SCENARIO.description(), scenario_of(OFFICIAL).description()
    assert ours.pop("Rules") == "CAGE-1"
    changed = {"Enterprise1", "Enterprise2", "User0", "User1", "User2", "User3", "User4"}
    for host in changed:
        assert ours["Hosts"][host].pop("Processes") != official["Hosts"][host].pop("Processes")
    assert ours == official
    assert SCENARIO.action_names == scenario_of(OFFICIAL).action_names


def test_user_hosts_have_the_ports_of_challenge_1() -> None:
    ports = {
        name: [c["local_port"] for process in host["Processes"] for c in process["Connections"]]
        for name, host in SCENARIO.description()["Hosts"].items()
        if name.startswith("User")
    }
    windows, linux = [22, 135, 3389, 445, 139], [22, 80]
    assert ports == dict(zip(ports, (windows, windows, windows, linux, linux), strict=True))


def test_is_named_and_written_as_a_file(tmp_path: Path) -> None:
    assert played_of("scenario1b") is SCENARIO
    assert SCENARIO.text == "scenario1b"
    write_scenario(SCENARIO, tmp_path / "changed.yaml")
    assert read(tmp_path / "changed.yaml").text == "scenario1b"


def test_a_host_keeps_the_rules() -> None:
    changed = SCENARIO.add_host("Web0", "Gateway", "Enterprise")
    assert changed.is_cage1
    assert Scenario.from_text(changed.text) == changed
    simulator = make_simulator("compiled", 30, scenario=changed)
    simulator.reset(0, "B_lineAgent")
    simulator.step(0)
