from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

OFFICIAL_SHA256 = "f6c815e34a8f307b3c603d780045f2f9f3579d9cb470f2a68958399ae3c3839f"
OFFICIAL = Path(__file__).parents[4] / "shared" / "cage2" / "scenario2.json"


def test_the_scenario_is_the_official_one() -> None:
    canonical = json.dumps(Scenario.scenario2().description(), sort_keys=True)
    assert hashlib.sha256(canonical.encode()).hexdigest() == OFFICIAL_SHA256


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official description is not at hand")
def test_the_scenario_equals_the_official_description_in_content_and_in_order() -> None:
    ours, official = Scenario.scenario2().description(), json.loads(OFFICIAL.read_text())
    assert ours == official
    for section in ("Agents", "Hosts", "Subnets"):
        assert list(ours[section]) == list(official[section])
    for agent in ours["Agents"]:
        known, official_known = (d["Agents"][agent]["INT"]["Hosts"] for d in (ours, official))
        assert list(known) == list(official_known)
    for host in ours["Hosts"]:
        learned, official_learned = (d["Hosts"][host].get("info", {}) for d in (ours, official))
        assert list(learned) == list(official_learned)


def test_each_description_is_fresh_and_shares_nothing_between_hosts() -> None:
    changed, fresh = (Scenario.scenario2().description() for _ in range(2))
    changed["Hosts"]["Enterprise1"]["Processes"][0]["PID"] = -1
    changed["Agents"]["Blue"]["INT"]["Hosts"]["User0"]["Sessions"] = "Blue"
    assert changed["Hosts"]["Enterprise2"] == fresh["Hosts"]["Enterprise2"]
    assert fresh["Hosts"]["Enterprise1"]["Processes"][0]["PID"] == 3368
    assert "Sessions" not in fresh["Agents"]["Blue"]["INT"]["Hosts"]["User0"]


def test_the_action_names_follow_the_documented_groups() -> None:
    decoys = ("Apache", "Femitter", "HarakaSMPT", "Smss", "SSHD", "Svchost", "Tomcat", "Vsftpd")
    kinds = ("Analyse", "Remove", *(f"Decoy{name}" for name in decoys), "Restore")
    names = ["Sleep", "Monitor", *(f"{kind} {host}" for kind in kinds for host in HOSTS)]
    assert [*ACTION_NAMES] == names
    assert len(names) == 145
    assert names.index("Restore Op_Server0") == 132 + 7
