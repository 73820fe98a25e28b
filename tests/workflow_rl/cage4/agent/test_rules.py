from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import (
    ALL_HOSTS,
    SERVER,
    USER,
    raw_record,
)
from workflow_rl.cage4.agent.belief import FIRST, RESTORE, Belief
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, RAW
from workflow_rl.cage4.agent.rules import RULES, Rules, RuleTeam, ruled, sweep, worth_of_decoys
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    COUNTED_STEPS,
    IN_PROGRESS,
    MAX_STEPS,
    N_OBS,
    ON_HOSTS,
)

ZONE = 1  # Operational A, which has one agent of the same number.
NAMES = [action.host for action in ACTIONS[ZONE][:16]]


NO_DECOYS = RULES._replace(decoy=0, entrance=0)


class Shown:
    """The rules in one env, in which all hosts exist, on records that are written by hand."""

    def __init__(self, rules: Rules = RULES) -> None:
        rule_team = RuleTeam(1, rules)
        self.belief, self._team = rule_team.belief, SingleTeam(rule_team)
        self._team.reset(ALL_HOSTS, 0)

    def play(self, raw: Any) -> list[int]:
        """Return five actions after a step that showed `raw`."""
        busy = raw["success"][0] == IN_PROGRESS
        return self._team.act(np.zeros((1, N_OBS)), lambda: raw, busy)[0]


@pytest.fixture
def team() -> Shown:
    return Shown(NO_DECOYS)


def act(team: Shown, raw: Any) -> str:
    return str(ACTIONS[ZONE][team.play(raw)[ZONE]])


def test_a_restore_takes_the_decoys_with_it():
    belief = Belief(1)
    belief.begin([0], ALL_HOSTS, raw_record())
    belief.analysed[0, ZONE] = -20
    for _ in range(4):
        belief.update([0], raw_record(decoy=(ZONE, USER)))
    assert belief.decoys[0, ZONE, USER] == 4
    assert worth_of_decoys(belief, [0])[0, ZONE, USER] == RULES.decoy * RULES.next_decoy**4
    restore = SLEEP.copy()
    restore[ZONE] = FIRST[RESTORE, ZONE] + USER
    belief.begin_actions([0], restore[None])
    belief.update([0], raw_record())
    assert belief.decoys.sum() == 0


def test_a_host_with_root_is_restored_before_all_else(team):
    shown = raw_record(files=(ZONE, USER, CMD | ESCALATE), shells=((ZONE, SERVER),))
    assert act(team, shown) == f"Restore {NAMES[USER]}"
    # The Restore has taken effect now, and the shell is next.
    assert act(team, raw_record()) == f"Remove {NAMES[SERVER]}"


def test_a_shell_is_removed_and_its_host_analysed(team):
    assert act(team, raw_record(shells=((ZONE, USER),))) == f"Remove {NAMES[USER]}"
    assert act(team, raw_record()) == f"Analyse {NAMES[USER]}"


def test_nothing_is_repaired_or_analysed_that_no_longer_counts(team):
    act(team, raw_record())
    shown = raw_record(files=(ZONE, USER, CMD | ESCALATE))
    team.belief.step[0] = COUNTED_STEPS - RULES.last - 2
    assert act(team, shown).startswith("Restore ")
    assert act(team, shown).startswith("Analyse ")
    team.belief.step[0] = COUNTED_STEPS - 2
    assert act(team, shown) == "Sleep"


def test_an_episode_that_goes_on_after_the_challenges_end_is_played_on(team):
    act(team, raw_record())
    team.belief.step[0] = MAX_STEPS
    assert act(team, raw_record(files=(ZONE, USER, CMD | ESCALATE))).startswith("Restore ")
    actions = sweep(team.belief, [0], NO_DECOYS)[0].tolist()
    assert all(ACTIONS[agent][i].kind == "Analyse" for agent, i in enumerate(actions))


@pytest.mark.parametrize(("rules", "kind"), [(NO_DECOYS, "Analyse"), (RULES, "DeployDecoy")])
@pytest.mark.parametrize("choice", [sweep, ruled])
def test_hosts_that_do_not_exist_are_left_alone(choice, rules, kind):
    masks = ALL_HOSTS.copy()
    masks[0, ON_HOSTS["Analyse"]] = False
    masks[0, ON_HOSTS["Analyse"][5, [3, 12]]] = True
    belief = Belief(1)
    belief.begin([0], masks, raw_record())
    belief.update([0], raw_record(shells=((ZONE, USER),)))
    actions = [str(ACTIONS[agent][choice(belief, [0], rules)[0, agent]]) for agent in range(5)]
    assert actions == ["Sleep"] * 4 + [f"{kind} office_network_subnet_user_host_6"]


@pytest.mark.parametrize(("rules", "routine"), [(NO_DECOYS, "Analyse"), (RULES, "DeployDecoy")])
def test_an_agent_acts_on_its_own_observations_alone(rules, routine):
    draw = np.random.default_rng(1)
    team, other = Shown(rules), Shown(rules)
    own = np.zeros(137, np.bool_)
    own[2 * 17 : 3 * 17] = True
    taken = set()
    for _ in range(60):
        shown, changed = (drawn_record(draw) for _ in range(2))
        for name in RAW.names or ():
            if name == "success":
                changed[name][0, 2] = shown[name][0, 2]
            else:
                changed[name][0, own] = shown[name][0, own]
        actions = [player.play(raw)[2] for player, raw in ((team, shown), (other, changed))]
        assert actions[0] == actions[1]
        taken.add(ACTIONS[2][actions[0]].kind)
    assert taken >= {routine, "Remove", "Restore"}


def drawn_record(draw: np.random.Generator) -> Any:
    record = np.zeros(1, RAW)
    record["success"] = draw.integers(1, 5, 5)
    hosts = record["files"].shape
    record["files"] = np.where(draw.random(hosts) < 0.02, draw.integers(4, 8, hosts), 0)
    record["decoy"] = draw.random(hosts) < 0.02
    record["n_shells"] = draw.random(hosts) < 0.02
    record["n_sources"] = draw.random(hosts) < 0.02
    # A host sees sources in the zones of its agent alone.
    record["source"] = (np.arange(137) // 17 * 17)[:, None] + draw.integers(1, 17, (137, 6))
    record["seen"] = draw.integers(1, 32, (137, 6))
    return record
