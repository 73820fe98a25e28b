"""Records of raw observations: read from dictionaries, they are those of the compiled simulator."""

from typing import Any

import numpy as np
import pytest

from scripts.score_cage4_teams import seen_in
from workflow_rl.cage4.agent.raw_record import (
    ANALYSED,
    APPROACHED,
    CMD,
    DECEIVED,
    DECOYS,
    ESCALATE,
    MAX_SOURCES,
    NUMBERS,
    PASSED,
    RAW,
    SCANNED,
    SSH_PORT,
    STRANGER,
    TAKEN,
    RawReader,
)
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.compiled import exploits, true_state
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.red_env_batch import MixedTeams
from workflow_rl.cage4.scenario.scenario4 import (
    AGENT_HOSTS,
    FALSE,
    HOST_NAMES,
    HOST_NUMBERS,
    IN_PROGRESS,
    OWN_ZONES,
    RED_AGENTS,
    TRUE,
    UNKNOWN,
)


def difference(first: Any, second: Any) -> str | None:
    """The first field in which two records differ, bit for bit."""
    assert first.dtype == second.dtype == RAW
    return next(
        (name for name in RAW.names or () if first[name].tobytes() != second[name].tobytes()), None
    )


def test_numbers_are_those_of_the_compiled_simulator():
    own = [[HOST_NAMES[number] for number in row] for row in NUMBERS.tolist()]
    assert own == [AGENT_HOSTS[agent][16 * i : 16 * i + 16] for agent, i in OWN_ZONES]
    assert exploits.PORTS[exploits.SSH] == SSH_PORT
    assert [true_state.SERVICE_NAMES[kind] for kind in DECOYS.values()] == [*DECOYS]


@pytest.mark.parametrize("red_agent", RED_AGENTS)
@pytest.mark.parametrize("blue", ["random", "decoys", "rules"])
def test_dictionaries_are_read_as_the_compiled_simulator_writes(red_agent, blue):
    simulator, reader = make_simulator("compiled", red_agent, 500), RawReader()
    team = make_scripted_team(blue)
    observations = simulator.reset(5)
    team.reset(simulator.masks, 5)
    record = reader.begin(simulator.raw_observations())
    for step in range(200):
        assert difference(record, simulator.raw_arrays()) is None, step
        observations = simulator.step(*team.act_in(simulator, observations)).observations
        record = reader.read(simulator.raw_observations())


def test_all_that_a_record_can_tell_occurs():
    """Otherwise the test above would compare less than there is."""
    simulator = BatchedSimulator(6, shows_raw=True)
    simulator.reset(list(range(6)))
    team = MixedTeams([TEAMS[name](6) for name in ("random", "decoys", "rules")], [1, 1, 1])
    team.begin(range(6), range(6), simulator.masks, seen_in(simulator))
    seen, files, success = 0, 0, set()
    fields = ("decoy", "decoy_pid", "n_shells", "shell_pid", "false_alerts", "green_connections")
    missing = set(fields)
    for _ in range(200):
        taken, _ = team.act(range(6))
        simulator.step(taken)
        team.see(range(6), taken, seen_in(simulator))
        seen |= int(np.bitwise_or.reduce(simulator.raw["seen"], axis=None))
        files |= int(np.bitwise_or.reduce(simulator.raw["files"], axis=None))
        success |= set(simulator.raw["success"].ravel().tolist())
        missing -= {name for name in fields if simulator.raw[name].any()}
    assert seen == SCANNED | APPROACHED | PASSED | TAKEN | DECEIVED
    assert files == ANALYSED | CMD | ESCALATE
    assert success == {TRUE, UNKNOWN, FALSE, IN_PROGRESS}
    assert not missing


@pytest.mark.parametrize(("name", "steps"), [("cyborg", 60), ("published", 16)])
@pytest.mark.parametrize("red_agent", RED_AGENTS[:2])
def test_cyborgs_records_are_the_compiled_ones(checkout, name, steps, red_agent):
    first, second = (make_simulator(made, red_agent, 100) for made in (name, "compiled"))
    team = make_scripted_team("rules")
    first.reset(8)
    observations = second.reset(8)
    team.reset(second.masks, 8)
    for step in range(steps):
        for _ in range(2):  # To ask twice changes nothing.
            assert difference(first.raw_arrays(), second.raw_arrays()) is None, step
        taken, _ = team.act_in(second, observations)
        first.step(taken)
        observations = second.step(taken).observations


def test_the_record_of_a_reset_tells_nothing_of_hosts(checkout):
    """An agent's own sessions, which the dictionaries of a reset list, are no shells."""
    for name in ("compiled", "cyborg", "published"):
        simulator = make_simulator(name, RED_AGENTS[0], 20)
        simulator.start_stream(3)
        simulator.reset()
        expected = np.zeros(1, RAW)
        expected["success"] = UNKNOWN
        assert difference(simulator.raw_arrays(), expected) is None
        assert difference(RawReader().begin(simulator.raw_observations()), expected) is None


def told(**hosts: Any) -> list[Any]:
    return [{"success": "UNKNOWN", **hosts}, *({"success": "TRUE"} for _ in range(4))]


def test_addresses_of_other_agents_zones_belong_to_strangers():
    reader, host = RawReader(), "restricted_zone_a_subnet_user_host_3"
    other = "restricted_zone_a_subnet_server_host_0"
    addresses = {host: "10.0.0.3", other: "10.0.0.9"}
    interfaces = {n: {"Interface": [{"ip_address": a}]} for n, a in addresses.items()}
    reader.begin(told(**interfaces))
    scans = [
        {"local_port": 22, "local_address": "10.0.0.3", "remote_address": address, "remote_port": n}
        for n, address in enumerate(("10.0.0.9", "10.7.0.1"), start=50_000)
    ]
    record = reader.read(told(**{host: {"Processes": [{"Connections": [scan]} for scan in scans]}}))
    at = 0, HOST_NUMBERS[host]
    assert record["n_sources"][at] == 2
    assert record["source"][at][:2].tolist() == [HOST_NUMBERS[other], STRANGER]
    assert record["seen"][at][:2].tolist() == [SCANNED, SCANNED]


def test_more_shells_than_fit_are_told():
    reader, host = RawReader(), "restricted_zone_a_subnet_user_host_3"
    reader.begin(told())
    shells = [{"PID": pid} for pid in range(1, MAX_SOURCES + 2)]
    with pytest.raises(ValueError, match="more than 6 shells or sources"):
        reader.read(told(**{host: {"Processes": shells}}))
