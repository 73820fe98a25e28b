import hashlib
import json

from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

OFFICIAL_SHA256 = "f6c815e34a8f307b3c603d780045f2f9f3579d9cb470f2a68958399ae3c3839f"


def test_the_scenario_is_the_official_one() -> None:
    canonical = json.dumps(Scenario.scenario2().description(), sort_keys=True)
    assert hashlib.sha256(canonical.encode()).hexdigest() == OFFICIAL_SHA256


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
