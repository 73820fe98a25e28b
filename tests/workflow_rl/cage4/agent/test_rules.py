from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import (
    ALL_HOSTS,
    OTHER_USER,
    SERVER,
    USER,
    raw_record,
)
from workflow_rl.cage4.agent.belief import FIRST, RESTORE, Belief
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, NUMBERS, RAW, TAKEN
from workflow_rl.cage4.agent.rules import RULES, Rules, RuleTeam, ruled, sweep, worth_of_decoys
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    COUNTED_STEPS,
    IN_PROGRESS,
    MAX_STEPS,
    N_OBS,
    ON_HOSTS,
    PHASE_STARTS,
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


def test_hosts_are_analysed_in_turn_and_those_of_users_more_often(team):
    hosts = []
    for _ in range(80):
        kind, host = act(team, raw_record()).split()
        assert kind == "Analyse"
        hosts.append(NAMES.index(host))
        assert act(team, raw_record(busy=True)) == "Sleep"
        act(team, raw_record(files=(ZONE, hosts[-1], 0)))
    assert set(hosts) == set(range(16))
    assert hosts.count(USER) > 2 * hosts.count(SERVER)


def test_users_hosts_get_decoys_until_an_analyse_is_worth_more():
    team = Shown()
    deployed, shown = [0] * 16, raw_record()
    for _ in range(20):
        kind, host = act(team, shown).split()
        assert kind == "DeployDecoy"
        deployed[NAMES.index(host)] += 1
        assert act(team, raw_record(busy=True)) == "Sleep"
        shown = raw_record(decoy=(ZONE, NAMES.index(host)))
    assert deployed == [0] * 6 + [2] * 10
    assert act(team, shown) == f"Analyse {NAMES[6]}"


def test_red_meets_decoys_on_the_servers_that_it_knows_from_the_beginning():
    team, deployed = Shown(), []
    shown = raw_record()
    for _ in range(3):
        actions = [str(ACTIONS[agent][i]) for agent, i in enumerate(team.play(shown))]
        deployed.append([actions[agent] for agent in (0, 2, 4)])
        team.play(raw_record(busy=True))
        shown = raw_record()
        shown["decoy"][0, NUMBERS[[0, 2, 6], 0]] = 1
    zones = "restricted_zone_a", "restricted_zone_b", "public_access_zone"
    assert deployed == [[f"DeployDecoy {zone}_subnet_server_host_0" for zone in zones]] * 3
    actions = [str(ACTIONS[agent][i]) for agent, i in enumerate(team.play(shown))]
    assert not any("server" in action for action in actions)


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


def test_no_decoy_is_worth_deploying_where_red_is():
    belief = Belief(1)
    belief.begin([0], ALL_HOSTS, raw_record())
    belief.update([0], raw_record(files=(ZONE, USER, ESCALATE), shells=((ZONE, OTHER_USER),)))
    worth = worth_of_decoys(belief, [0])[0, ZONE]
    assert worth[[USER, OTHER_USER, SERVER]].tolist() == [-1, -1, -1]
    assert (np.delete(worth[6:], [USER - 6, OTHER_USER - 6]) == RULES.decoy).all()


def test_a_host_with_root_is_restored_before_all_else(team):
    shown = raw_record(files=(ZONE, USER, CMD | ESCALATE), shells=((ZONE, SERVER),))
    assert act(team, shown) == f"Restore {NAMES[USER]}"
    # The Restore has taken effect now, and the shell is next.
    assert act(team, raw_record()) == f"Remove {NAMES[SERVER]}"


def test_a_shell_is_removed_and_its_host_analysed(team):
    assert act(team, raw_record(shells=((ZONE, USER),))) == f"Remove {NAMES[USER]}"
    assert act(team, raw_record()) == f"Analyse {NAMES[USER]}"


def test_a_shell_on_a_source_is_restored(team):
    act(team, raw_record(source=(ZONE, SERVER, NUMBERS[ZONE, USER], TAKEN)))
    act(team, raw_record())  # The first Restore is behind it.
    attack = ZONE, SERVER, NUMBERS[ZONE, OTHER_USER], TAKEN
    assert act(team, raw_record(source=attack)) == f"Analyse {NAMES[OTHER_USER]}"
    assert act(team, raw_record(shells=((ZONE, OTHER_USER),))) == f"Restore {NAMES[OTHER_USER]}"


def test_the_first_source_of_a_zone_is_restored_and_others_after_some_attacks(team):
    shown = raw_record(source=(ZONE, SERVER, NUMBERS[ZONE, USER], TAKEN))
    assert act(team, shown) == f"Restore {NAMES[USER]}"
    shown = raw_record(source=(ZONE, SERVER, NUMBERS[ZONE, OTHER_USER], TAKEN))
    for _ in range(RULES.taken - 1):
        assert act(team, shown).startswith("Analyse ")
    assert act(team, shown) == f"Restore {NAMES[OTHER_USER]}"


def test_every_source_is_restored_soon_before_its_zones_decisive_phase(team):
    act(team, raw_record(source=(ZONE, SERVER, NUMBERS[ZONE, USER], TAKEN)))
    act(team, raw_record(source=(ZONE, SERVER, NUMBERS[ZONE, OTHER_USER], TAKEN)))
    step = PHASE_STARTS[1] - RULES.lead
    team.belief.step[0] = step - 2
    assert act(team, raw_record()).startswith("Analyse ")
    assert act(team, raw_record()) == f"Restore {NAMES[OTHER_USER]}"


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


def test_the_sweep_prefers_what_is_longest_ago_and_what_was_attacked():
    belief = Belief(1)
    belief.begin([0], ALL_HOSTS, raw_record())
    for _ in range(30):
        belief.update([0], raw_record())
    belief.analysed[0, ZONE] = 20
    belief.analysed[0, ZONE, USER] = 10
    assert sweep(belief, [0], NO_DECOYS)[0, ZONE] == USER
    belief.update([0], raw_record(shells=((ZONE, SERVER),)))
    assert sweep(belief, [0], NO_DECOYS)[0, ZONE] == SERVER


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
