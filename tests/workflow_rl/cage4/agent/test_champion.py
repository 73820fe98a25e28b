from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from workflow_rl.cage4.agent import memory
from workflow_rl.cage4.agent.champion import NETWORKS, ChampionTeam, load_weights, save_weights
from workflow_rl.cage4.agent.champion_network import SHAPES
from workflow_rl.cage4.scenario4 import ACTIONS, N_ACTIONS, OBS_SIZES, PROCESSES, SLEEP_ACTIONS
from workflow_rl.cage4.scoring.protocol import Author, play_protocol

USER, OTHER, SERVER = 9, 12, 2


def fresh() -> np.record:
    m = np.zeros(1, memory.MEMORY).view(np.recarray)[0]
    memory.begin(m, np.ones(sum(N_ACTIONS), np.bool_))
    return m


def events(processes: tuple[int, ...] = (), connections: tuple[int, ...] = ()) -> np.ndarray:
    """Return observations with events on hosts of agent 0."""
    obs = np.zeros(sum(OBS_SIZES), np.int8)
    obs[PROCESSES[0, 0] + np.array(processes, np.int64)] = 1
    obs[PROCESSES[0, 0] + memory.N_HOSTS + np.array(connections, np.int64)] = 1
    return obs


def options(m: np.record) -> tuple[list[int], list[int]]:
    found = np.zeros(1 + 2 * memory.N_HOSTS, np.bool_)
    memory.find_options(m, 0, found)
    remove, restore = found[1 : 1 + memory.N_HOSTS], found[1 + memory.N_HOSTS :]
    return np.flatnonzero(remove).tolist(), np.flatnonzero(restore).tolist()


def test_an_attack_names_its_target_and_its_source() -> None:
    m = fresh()
    memory.read_observations(m, events((USER,), (USER, OTHER)))
    assert m.shell[0].nonzero()[0].tolist() == [USER]
    assert m.source[0].nonzero()[0].tolist() == [OTHER]
    assert not m.may_be_first[0, USER]
    assert m.may_be_first[0, OTHER]
    assert m.shell[1:].sum() == m.source[1:].sum() == 0


def test_a_scan_clears_a_host_and_a_process_alone_is_a_doubt() -> None:
    m = fresh()
    memory.read_observations(m, events((OTHER, SERVER), ()))
    assert m.doubt[0, OTHER]
    assert m.shell[0, SERVER]
    memory.start(m, 0, OTHER, False)
    for _ in range(memory.BUSY_REMOVE):
        memory.read_observations(m, events())
    assert not m.doubt[0, OTHER]
    assert m.had_doubt[0, OTHER]
    memory.read_observations(m, events((), (OTHER,)))
    assert not m.had_doubt[0, OTHER]
    assert not m.may_be_first[0, OTHER]


def test_an_action_ends_what_it_ends_when_it_takes_effect() -> None:
    m = fresh()
    memory.read_observations(m, events((USER,), (USER,)))
    assert options(m) == ([USER], list(range(6, 16)))
    memory.start(m, 0, USER, True)
    for step in range(memory.BUSY_RESTORE):
        assert not memory.may_act(m, 0)
        assert m.had_shell[0, USER], step
        # An event before the Restore takes effect is wiped with the host.
        memory.read_observations(m, events((USER,), (USER,)) if step == 1 else events())
    assert not m.had_shell[0, USER]
    assert memory.may_act(m, 0)


def test_a_restored_host_may_come_back_until_red_scans_it() -> None:
    m = fresh()
    memory.read_observations(m, events((USER,), (USER,)))
    memory.start(m, 0, USER, True)
    for _ in range(memory.BUSY_RESTORE):
        memory.read_observations(m, events())
    assert m.may_return[0, USER]
    assert USER in options(m)[1]
    memory.read_observations(m, events((), (USER,)))
    assert not m.may_return[0, USER]


@pytest.mark.parametrize(("agent", "dear"), [(1, 167), (3, 334)])
def test_suspects_are_restored_before_the_dear_phase(agent: int, dear: int) -> None:
    m = fresh()
    m.first_activity[agent], m.may_be_first[:], m.had_doubt[agent, USER] = 5, 0, 1
    found = np.zeros(1 + 2 * memory.N_HOSTS, np.bool_)
    for step, must in ((dear - 31, False), (dear - 30, True), (dear - 1, True), (dear, False)):
        m.step = step + 1
        memory.find_options(m, agent, found)
        assert found[0] != must
        assert found[1 + memory.N_HOSTS + USER]
    # The host was restored a moment ago: it is no suspect any more.
    m.step, m.had_doubt[agent, USER], m.may_return[agent, USER] = dear - 5, 0, 1
    m.last[memory.RESTORED, agent, USER] = dear - 10
    memory.find_options(m, agent, found)
    assert found[0]
    m.last[memory.RESTORED, agent, USER] = dear - 100
    memory.find_options(m, agent, found)
    assert not found[0]


def test_an_agent_acts_on_its_own_observations_alone() -> None:
    draw = np.random.default_rng(1)
    team, other = ChampionTeam(), ChampionTeam()
    masks = [np.ones(n, np.bool_) for n in N_ACTIONS]
    team.reset(masks, 0)
    other.reset(masks, 1)
    n_acted = 0
    for _ in range(40):
        seen = [(draw.random(size) < 0.05).astype(np.int64) for size in OBS_SIZES]
        changed = [(draw.random(size) < 0.5).astype(np.int64) for size in OBS_SIZES]
        changed[2] = seen[2].copy()
        changed[2][-32:] ^= 1  # Messages are not read.
        action = team.act(seen)[0][2]
        assert action == other.act(changed)[0][2]
        assert ACTIONS[2][action].kind in ("Remove", "Restore", "Sleep")
        n_acted += action != SLEEP_ACTIONS[2]
    assert n_acted > 3


def test_the_team_needs_numpy_alone() -> None:
    program = (
        "import sys; from workflow_rl.cage4.agent.champion import ChampionTeam; ChampionTeam(); "
        "print([m for m in ('numba', 'torch', 'networkx') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert printed.stdout.strip() == "[]"


def test_weights_are_kept(tmp_path: Path) -> None:
    save_weights(tmp_path / "w.npz", load_weights())
    for one, other in zip(load_weights(), load_weights(tmp_path / "w.npz"), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def _npy(shape: str) -> bytes:
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize("content", [b"text", _npy("(1000000000000000,)"), _npy("(8,)")])
def test_a_strangers_weights_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for network in NETWORKS:
            for name in SHAPES:
                archive.writestr(f"{network}_{name}.npy", content)
    with pytest.raises(ValueError, match=r"champion|archive|array"):
        load_weights(path)


def test_both_simulators_give_the_team_the_same_returns(checkout: object) -> None:
    author = Author("champion", "us", "champion")
    totals = [
        play_protocol(ChampionTeam(), author, name, 2, 3, steps=60).totals
        for name in ("compiled", "cyborg")
    ]
    assert totals[0] == totals[1]


@pytest.mark.slow
def test_many_episodes_at_once_are_played_as_one() -> None:
    from workflow_rl.cage4.agent import batched
    from workflow_rl.cage4.compiled.simulator import (
        BatchedSimulator,
        masks_by_agent,
        observations_of,
    )

    simulator, team = BatchedSimulator(4), ChampionTeam()
    obs = simulator.reset([5, 6, 7, 8])
    memories, actions = np.zeros(4, memory.MEMORY), np.zeros((4, 5), np.int64)
    batched.begin_all(memories, simulator.masks)
    team.reset(masks_by_agent(simulator.masks[2]), 0)
    rooms = batched.decision_room(1, 16), batched.decision_room(1, 48)
    for _ in range(498):
        batched.decide(memories, obs, load_weights(), batched.GREEDY, actions, -1.0, rooms, actions)
        assert team.act(observations_of(obs[2]))[0] == actions[2].tolist()
        obs, _, _ = simulator.step(actions)
