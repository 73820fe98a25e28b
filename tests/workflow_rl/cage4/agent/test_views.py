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
from workflow_rl.agents.team import ACTS
from workflow_rl.cage4.agent.gate import MAILS
from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, NUMBERS, TAKEN
from workflow_rl.cage4.agent.views import (
    CLOCK,
    N_CONTEXT,
    N_FEATURES,
    RHYTHM,
    SLEEP,
    BeliefView,
    HiddenView,
    ViewRows,
    views_layout,
)
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    AGENT_HOSTS,
    AGENT_ZONES,
    N_MASKS,
    N_OBS,
    ON_HOSTS,
    OWN_ZONES,
)

SIZES = BeliefView.obs_sizes(listens=False)
NO_OBS = np.zeros((1, N_OBS), np.int8)
FREE, BUSY = np.zeros((1, 5), np.int64), np.ones((1, 5), np.int64)
ZONES = pytest.mark.parametrize("zone", [1, 4, 5, 6])
N_FLAGS = 9
SWEPT = "DeployDecoy"  # What an episode begins with.


def test_hidden_adds_a_chance_to_what_the_belief_shows_of_each_host() -> None:
    belief, hidden = BeliefView(1), HiddenView(1)
    hidden.begin([0], NO_OBS, ALL_HOSTS, raw_record())
    belief.begin([0], NO_OBS, ALL_HOSTS, raw_record())
    # In zone 1, of agent 1, a shell is seen on a user's host. On a mail's chance, see `gate`.
    for record in (raw_record(shells=((1, USER),)), raw_record()):
        seen, shown = (of.after([0], SLEEP[None], NO_OBS, record)[0] for of in (belief, hidden))
    parts = np.split(shown, np.cumsum(HiddenView.obs_sizes(listens=False))[:-1])
    for agent, plain in enumerate(np.split(seen, np.cumsum(SIZES)[:-1])):
        n_hosts = 16 * len(AGENT_ZONES[agent])
        np.testing.assert_array_equal(parts[agent][:-n_hosts], plain)
        features = np.array(HiddenView.entities()[agent]["features"])
        chances = parts[agent][features[:, -1]]
        np.testing.assert_array_equal(chances, parts[agent][-n_hosts:])
        others = np.delete(chances, USER) if agent == 1 else chances
        assert set(others) == {np.float32(0), np.float32(1 - (1 - MAILS) ** 2)}
    assert parts[1][-16 + USER] == 1


def view_of(*records: Any, masks: Any = ALL_HOSTS) -> tuple[BeliefView, list[Any]]:
    """A view after a reset and some steps that showed `records`; what each agent sees then."""
    view = BeliefView(1)
    seen = view.begin([0], NO_OBS, masks, raw_record())
    for record in records:
        seen = view.after([0], SLEEP[None], NO_OBS, record)
    assert seen.dtype == np.float32
    return view, np.split(seen[0], np.cumsum(SIZES)[:-1])


@ZONES
def test_the_tables_of_hosts_point_at_the_right_columns(zone: int) -> None:
    agent, i = OWN_ZONES[zone]
    shown = raw_record(
        files=(zone, USER, CMD | ESCALATE),
        shells=((zone, OTHER_USER),),
        source=(zone, SERVER, NUMBERS[zone, USER], TAKEN),
        decoy=(zone, OTHER_USER),
    )
    _, seen = view_of(raw_record(), shown, raw_record())
    tables = BeliefView.entities()[agent]
    hosts = seen[agent][np.array(tables["features"])]
    assert hosts.shape == (16 * len(AGENT_ZONES[agent]), N_FEATURES)
    expected = np.zeros((len(hosts), N_FLAGS), np.float32)
    expected[:, 0] = 1
    expected[:, 6] = np.tile(np.arange(16) < 6, len(AGENT_ZONES[agent]))
    expected[16 * i + OTHER_USER, 1:3] = 1
    expected[16 * i + USER, [2, 3, 4]] = 1
    expected[16 * i + USER, 7] = expected[16 * i + OTHER_USER, 8] = 1 / 4
    assert np.array_equal(hosts[:, :N_FLAGS], expected)
    # Analyse, shell, attack from the host, Restore and scan.
    once, since, never = (np.array([5, 40]) / (np.array([5, 40]) + ago) for ago in (1, 3, 1e6))
    for host, when in (
        (USER, [once, never, once, since, never]),
        (OTHER_USER, [since, once, never, since, never]),
        (SERVER, [since, never, never, since, once]),
        (1, [since, never, never, since, never]),
    ):
        assert hosts[16 * i + host, N_FLAGS:] == pytest.approx(np.concatenate(when), abs=1e-4)
    for other in set(range(5)) - {agent}:
        table = BeliefView.entities()[other]
        assert not seen[other][np.array(table["features"])][:, 1:6].any()


@pytest.mark.parametrize("n_words", [1, 4])
def test_the_tables_name_the_host_of_each_action(n_words: int) -> None:
    for agent, tables in enumerate(BeliefView.entities(n_words)):
        verbs = "Analyse", "Remove", "Restore", "DeployDecoy"
        plain = []
        for i, (chosen, host) in enumerate(tables["actions"]):
            action, (verb, word) = ACTIONS[agent][i // n_words], divmod(chosen, n_words)
            assert word == i % n_words
            if action.host:
                assert (verbs[verb], AGENT_HOSTS[agent][host]) == (action.kind, action.host)
            else:
                plain.append((chosen, host))
        assert plain == [(i, -1) for i in range(len(plain))]
        assert tables["present"] == [row[0] for row in tables["features"]]


def test_hosts_are_joined_by_their_zones_and_by_what_red_learns_from_servers() -> None:
    edges = BeliefView.entities()[4]["edges"]
    assert {(AGENT_HOSTS[4][a], AGENT_HOSTS[4][b]) for a, b in edges["zone_crossings"]} == {
        (f"{a}_server_host_0", f"{b}_server_host_0")
        for a in AGENT_ZONES[4]
        for b in AGENT_ZONES[4]
        if a != b and "public_access_zone_subnet" in (a, b)
    }
    assert len(edges["zone"]) == 3 * 16**2
    assert [b for a, b in edges["servers"] if a == 20] == [16, 17, 18, 19, 20, 21]
    assert BeliefView.entities()[0]["edges"]["zone_crossings"] == []


def test_what_is_known_of_a_host_that_does_not_exist_is_zero() -> None:
    masks = ALL_HOSTS.copy()
    masks[0, ON_HOSTS["Analyse"][5, 7]] = False
    _, seen = view_of(raw_record(shells=((5, 7),)), masks=masks)
    tables = BeliefView.entities()[4]
    assert not seen[4][np.array(tables["features"][16 + 7])].any()
    assert seen[4][np.array(tables["present"])].sum() == 47
    assert seen[4][CLOCK.shape[-1] + 3] == pytest.approx(47 / 48)
    assert seen[4][CLOCK.shape[-1]] == 0


def test_numbers_about_an_agent_are_its_own() -> None:
    source = raw_record(
        files=(1, USER, CMD | ESCALATE), source=(1, SERVER, NUMBERS[1, OTHER_USER], TAKEN)
    )
    view, seen = view_of(raw_record(), source)
    own = [vector[CLOCK.shape[-1] : N_CONTEXT] for vector in seen]
    assert own[1] == pytest.approx([0, 1 / 3, 1 / 3, 1, 1, 0, 1, 1])
    assert own[0] == pytest.approx([0, 0, 0, 1, 1, 0, 5e-6, 4e-5], rel=1e-3)
    assert all(np.array_equal(seen[a][: CLOCK.shape[-1]], CLOCK[2, a]) for a in range(5))
    restores = SLEEP[None].copy()
    restores[0, 1] = 33 + USER
    after = np.split(view.after([0], restores, NO_OBS, raw_record())[0], np.cumsum(SIZES)[:-1])
    n_clock = CLOCK.shape[-1]
    assert after[1][n_clock : n_clock + 6] == pytest.approx([0, 0, 1 / 3, 1, 0, np.log(2) / 3])


def test_only_what_is_suspected_can_be_repaired() -> None:
    shown = raw_record(
        files=(2, 7, CMD | ESCALATE),
        shells=((2, USER), (6, SERVER)),
        source=(2, SERVER, NUMBERS[2, OTHER_USER], TAKEN),
    )
    view, _ = view_of(shown)
    (possible,) = view.suspects([0])
    words = [action for actions in ACTIONS for action in actions]
    repairs = {str(words[i]) for i in np.flatnonzero(possible) if words[i].kind[:3] == "Rem"}
    restores = {str(words[i]) for i in np.flatnonzero(possible) if words[i].kind == "Restore"}
    names = [action.host for action in ACTIONS[2][:16]]
    public = "public_access_zone_subnet_server_host_0"
    assert repairs == {f"Remove {names[USER]}", f"Remove {public}"}
    expected = {f"Restore {names[host]}" for host in (7, USER, OTHER_USER)} | {f"Restore {public}"}
    assert restores == expected
    assert possible.sum() == N_MASKS - 2 * 7 * 16 + 2 + 4


def rows_of_suspects() -> tuple[ViewRows, Any]:
    rows = ViewRows(1, "belief", "suspects")
    return rows, rows.begin([0], NO_OBS, ALL_HOSTS, raw_record(), FREE)


def after(rows: ViewRows, record: Any, busy: Any = FREE, taken: Any = SLEEP[None]) -> list[int]:
    """Who decides after a step that showed `record`."""
    row = rows.after([0], taken, NO_OBS, record, busy, np.zeros(1, np.bool_))
    layout = views_layout("belief")
    assert np.array_equal(layout.status(row) == ACTS, rows.acts)
    return list(np.flatnonzero(rows.acts[0]))


def test_who_has_nothing_to_decide_sweeps() -> None:
    rows, row = rows_of_suspects()
    assert not rows.acts.any()
    assert row[0, -N_MASKS:].sum() == 5
    taken = rows.play([0], SLEEP[None])
    kinds = [ACTIONS[agent][action].kind for agent, action in enumerate(taken[0])]
    assert kinds == [SWEPT] * 5
    assert after(rows, raw_record(busy=True), BUSY, taken) == []
    # A busy agent does nothing.
    assert np.array_equal(rows.play([0], taken), SLEEP[None])


def test_who_decides_to_wait_sweeps_and_others_do_what_they_decide() -> None:
    rows, _ = rows_of_suspects()
    assert after(rows, raw_record(shells=((1, USER), (2, USER)))) == [1, 2]
    decided = SLEEP[None].copy()
    decided[0, [0, 1]] = 33 + USER  # Agent 0 is not asked.
    taken = [ACTIONS[agent][a] for agent, a in enumerate(rows.play([0], decided)[0])]
    assert [action.kind for action in taken] == [SWEPT, "Restore", *[SWEPT] * 3]
    assert taken[1].host == AGENT_HOSTS[1][USER]


def test_a_shell_asks_always_and_a_source_at_news_and_in_a_rhythm() -> None:
    rows, _ = rows_of_suspects()
    source = raw_record(source=(3, SERVER, NUMBERS[3, USER], TAKEN))
    assert after(rows, source) == [3]
    asked = [after(rows, raw_record()) for _ in range(2 * RHYTHM)]
    assert asked == ([[]] * (RHYTHM - 1) + [[3]]) * 2
    assert after(rows, source) == [3]
    # What happens while the agent is busy is asked for afterwards.
    assert after(rows, source, BUSY) == []
    assert after(rows, raw_record()) == [3]
    assert after(rows, raw_record(shells=((0, USER),))) == [0]
    assert [after(rows, raw_record()) for _ in range(3)] == [[0]] * 3
