"""Raw observations: of all simulators in lock-step, and the arrays beside the dictionaries."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.compiled.actions import FALSE, IN_PROGRESS, TRUE, UNKNOWN
from workflow_rl.cage4.compiled.hosts import OLD_PROCESSES
from workflow_rl.cage4.compiled.network import BLUE_OF_ZONE, N_HOSTS, ZONE, host_name
from workflow_rl.cage4.compiled.raw_arrays import (
    ANALYSED,
    APPROACHED,
    CMD,
    DECEIVED,
    ESCALATE,
    MOST,
    PASSED,
    RAW,
    SCANNED,
    STRANGER,
    TAKEN,
)
from workflow_rl.cage4.compiled.raw_observations import raw_observations
from workflow_rl.cage4.compiled.simulator import BatchedSimulator, masks_by_agent, observations_of
from workflow_rl.cage4.compiled.true_state import SERVICE_NAMES, address
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.interface import SIMULATORS, SimulationError
from workflow_rl.cage4.parity import Pair, compare
from workflow_rl.cage4.scenario4 import RED_AGENTS, SLEEP_ACTIONS

HOSTS = {host_name(host): host for host in range(N_HOSTS)}


@pytest.mark.parametrize("names", list(itertools.combinations(SIMULATORS, 2)), ids="-".join)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_simulators_show_the_same(checkout: Path, red_agent: str, names: tuple[str, ...]) -> None:
    first, second = (make_simulator(name, red_agent, 60) for name in names)
    steps, difference, error, _ = compare(first, second, Pair("random", red_agent, 3, 32))
    assert (steps, difference, error) == (32, None, "")


@pytest.mark.slow
@pytest.mark.timeout(8 * 3600)
def test_simulators_show_the_same_in_whole_episodes(checkout: Path) -> None:
    pairs = itertools.islice(itertools.cycle(itertools.product(TEAMS, RED_AGENTS)), 200)
    for seed, (blue, red_agent) in enumerate(pairs, start=5_700_000):
        first, second = (make_simulator(name, red_agent) for name in ("cyborg", "compiled"))
        _, difference, _, _ = compare(first, second, Pair(blue, red_agent, seed))
        assert difference is None, str(difference)


def test_a_network_that_was_asked_goes_on_alike() -> None:
    asked, other = (make_simulator("compiled") for _ in range(2))
    team = make_scripted_team("random")
    for simulator in (asked, other):
        simulator.reset(8)
    team.reset(asked.masks, 8)
    for _ in range(40):
        actions, messages = team.act(None)
        assert asked.raw_observations() == asked.raw_observations()
        asked.step(actions, messages)
        other.step(actions, messages)
    assert asked.true_state() == other.true_state()
    assert asked.raw_observations() == other.raw_observations()


def test_arrays_tell_what_dictionaries_tell() -> None:
    seen: Counter[str] = Counter()
    for red_agent, blue in itertools.product(RED_AGENTS[:3], ("random", "decoys")):
        simulator = BatchedSimulator(1, red_agent=red_agent, shows_raw=True)
        simulator.reset([5])
        team = make_scripted_team(blue)
        team.reset(masks_by_agent(simulator.masks[0]), 5)
        for _ in range(250):
            actions, messages = team.act(observations_of(simulator.obs[0]))
            simulator.step([actions], None if messages is None else messages[None])
            expected = arrays_of(simulator.states[0], seen)
            for name, values in expected.items():
                found = simulator.raw[0][name].tolist()
                assert found == values, (red_agent, blue, simulator.states["step_count"][0], name)
    missing = {"shell", "false alert", "escalate.sh", "cmd.sh", "green", "FALSE"} - set(seen)
    assert not missing
    assert all(seen[bit] for bit in (SCANNED, APPROACHED, PASSED, TAKEN, DECEIVED)), seen


def arrays_of(state: Any, seen: Counter[Any]) -> dict[str, Any]:
    """Return the fields of `RAW`, read from the dictionaries. seen: counts what occurs."""
    hosts = {address(state, host): host for host in range(N_HOSTS) if state["exists"][host]}
    fields = {
        name: [0] * N_HOSTS
        for name in ("files", "decoy", "decoy_pid", "n_shells", "false_alerts", "n_sources")
    }
    fields["green_connections"] = [0] * N_HOSTS
    lists = {name: [[0] * MOST for _ in range(N_HOSTS)] for name in ("shell_pid", "source", "seen")}
    success = []
    for data in raw_observations(state, np.zeros((5, 4, 8))):
        codes = {"TRUE": TRUE, "FALSE": FALSE, "UNKNOWN": UNKNOWN, "IN_PROGRESS": IN_PROGRESS}
        success.append(codes[data["success"]])
        seen[data["success"]] += 1
        if data.get("action", "").startswith("Analyse "):
            fields["files"][HOSTS[data["action"].split()[1]]] = ANALYSED
        for name, facts in data.items():
            if name in HOSTS:
                read_host(fields, lists, HOSTS[name], facts, hosts, seen)
    return {"success": success, **fields, **lists}


def read_host(
    fields: Any, lists: Any, host: int, facts: Any, hosts: dict[str, int], seen: Counter[Any]
) -> None:
    for file in facts.get("Files", ()):
        seen[file["File Name"]] += 1
        fields["files"][host] |= {"cmd.sh": CMD, "escalate.sh": ESCALATE}[file["File Name"]]
    passwords: Counter[Any] = Counter()
    sources: dict[int, int] = {}
    for process in facts.get("Processes", ()):
        if "service_name" in process:
            fields["decoy_pid"][host] = process["PID"]
            fields["decoy"][host] = SERVICE_NAMES.index(process["service_name"], 5)
        elif "PID" in process:
            seen["shell"] += 1
            lists["shell_pid"][host][fields["n_shells"][host]] = process["PID"]
            fields["n_shells"][host] += 1
        elif "remote_address" not in process["Connections"][0]:
            seen["false alert"] += 1
            fields["false_alerts"][host] += 1
        else:
            passwords[tuple(process["Connections"][0].values())] += 1
    for connection, n in passwords.items():
        if len(connection) == 3:
            remote_port, local, remote = connection
            if remote_port != 22:
                seen["green"] += n
                fields["green_connections"][host] += n
                continue
            how = APPROACHED if hosts[local] == host else PASSED
        else:
            local_port, _, _, remote = connection
            how = DECEIVED if local_port > 49151 else TAKEN if n == 10 else SCANNED
        seen[how] += 1
        source = hosts[remote]
        if BLUE_OF_ZONE[ZONE[source]] != BLUE_OF_ZONE[ZONE[host]]:
            source = STRANGER
        sources[source] = sources.get(source, 0) | how
    fields["n_sources"][host] = len(sources)
    for i, (source, how) in enumerate(sources.items()):
        lists["source"][host][i], lists["seen"][host][i] = source, how


def test_without_arrays_there_is_none() -> None:
    simulator = BatchedSimulator(2)
    simulator.reset([1, 2])
    assert len(simulator.raw) == 0


def test_arrays_belong_to_a_snapshot_and_begin_empty() -> None:
    simulator = BatchedSimulator(2, shows_raw=True)
    simulator.reset([1, 2])
    empty = simulator.save()
    for _ in range(60):
        simulator.step(SLEEP_ACTIONS)
    later = simulator.save()
    assert fields_of(later[-1]) != fields_of(empty[-1])
    simulator.reset([1, 2])
    assert fields_of(simulator.raw) == fields_of(empty[-1])
    simulator.load(later)
    assert fields_of(simulator.raw) == fields_of(later[-1])


def fields_of(raw: Any) -> list[Any]:
    return [raw[name].tolist() for name in RAW.names]


def test_more_shells_than_fit_are_told() -> None:
    simulator = BatchedSimulator(2, shows_raw=True)
    simulator.reset([1, 2])
    first = int(simulator.states["n_cells"][1])
    cells = simulator.states["cells"][1]
    for cell in range(first, first + MOST + 1):
        cells[cell]["pid"] = cell
        cells[cell]["next"] = cell + 1 if cell < first + MOST else 0
    simulator.states["events"][1, 3, OLD_PROCESSES] = first
    with pytest.raises(SimulationError, match="env 1: more than 6 sources or shells seen"):
        simulator._write_raw(np.ones(2, np.bool_))
