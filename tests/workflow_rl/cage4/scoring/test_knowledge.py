"""What a recording says that blue knows, beside what the dictionaries of CybORG's form tell."""

from collections import Counter
from typing import Any

import pytest

from workflow_rl.cage4.agent.raw_record import STRANGER
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, HOST_NUMBERS, N_HOSTS, RED_AGENTS
from workflow_rl.cage4.scoring.knowledge import Known
from workflow_rl.cage4.scoring.recording import record_episodes

STEPS = 200
SSH = 22


class Reader:
    """Notes by host what one agent's dictionaries tell; see `Known`."""

    def __init__(self, beginning: dict[str, Any], seen: Counter[str]) -> None:
        self.notes: dict[str, dict[str, Any]] = {}
        self._seen = seen
        self._names = {
            facts["Interface"][0]["ip_address"]: name
            for name, facts in beginning.items()
            if name in HOST_NUMBERS
        }

    def note(self, name: str) -> dict[str, Any]:
        return self.notes.setdefault(name, {"attacks": {}})

    def read(self, step: int, data: dict[str, Any]) -> None:
        kind, _, target = data.get("action", "").partition(" ")
        self._seen[kind] += 1
        if kind == "Restore":
            self.notes.pop(target, None)
        elif kind == "Remove":
            self.note(target).pop("shell", None)
        elif kind == "Analyse":
            self.note(target)["analysed"] = step
        for name in data.keys() & HOST_NUMBERS.keys():
            for file in data[name].get("Files", ()):
                self._seen[file["File Name"]] += 1
                kind = file["File Name"].removesuffix(".sh")
                self.note(name).setdefault(kind, step)
            for process in data[name].get("Processes", ()):
                if "PID" in process and "service_name" not in process:
                    self.note(name).setdefault("shell", step)
                for connection in process.get("Connections", ()):
                    self._connected(step, name, connection)

    def _connected(self, step: int, name: str, connection: dict[str, Any]) -> None:
        by_green = "local_port" not in connection and connection.get("remote_port") != SSH
        if "remote_address" not in connection or by_green:
            return
        source = self._names.get(connection["remote_address"])
        if source is not None:
            self.note(source)["source"] = step
        if self._names.get(connection["local_address"]) == name:
            number = STRANGER if source is None else HOST_NUMBERS[source]
            self.note(name)["attacks"][number] = step
            self._seen["stranger" if source is None else "known source"] += 1


@pytest.mark.parametrize("team", ["bursts", "sleep"])
def test_knowledge_is_what_the_dictionaries_tell(team: str) -> None:
    (recording,) = record_episodes([make_scripted_team(team)], RED_AGENTS[0], STEPS, 6, 0)
    simulator, player = CompiledSimulator(RED_AGENTS[0], STEPS), make_scripted_team(team)
    simulator.start_stream(6)
    observations = simulator.reset()
    player.reset(simulator.masks, 0)
    seen: Counter[str] = Counter()
    readers = [Reader(data, seen) for data in simulator.raw_observations()]
    known: dict[int, Known] = {}
    for number, step in enumerate(recording.steps, start=1):
        observations = simulator.step(*player.act_in(simulator, observations)).observations
        for reader, data in zip(readers, simulator.raw_observations(), strict=True):
            reader.read(number, data)
        known |= {host: recording.known[i] for host, i in step.knows}
        notes = {}
        for reader in readers:
            notes |= {HOST_NUMBERS[name]: facts for name, facts in reader.notes.items()}
        for host in range(N_HOSTS):
            facts = notes.get(host, {"attacks": {}})
            expected = Known(**facts)._replace(attacks=())
            found = known.get(host, Known())
            assert found._replace(attacks=()) == expected, (number, HOST_NAMES[host])
            assert {a.source: a.step for a in found.attacks} == facts["attacks"], (number, host)
    wanted = {"stranger", "known source"}
    if team == "bursts":
        wanted |= {"Analyse", "Remove", "Restore", "cmd.sh", "escalate.sh"}
    assert not wanted - seen.keys()
