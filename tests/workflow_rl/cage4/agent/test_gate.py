"""What a team does while it sees hardly an exploit of red's."""

from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import ALL_HOSTS, USER, raw_record
from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.cage4.agent.belief import Belief
from workflow_rl.cage4.agent.gate import MAILS, MOST_APART, SPAN, Gate
from workflow_rl.cage4.agent.raw_record import NUMBERS
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.agent.views import SLEEP, ViewRows
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.env.arguments import Cage4Arguments
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, AGENT_HOSTS, N_OBS
from workflow_rl.errors import ConfigError

FREE = np.zeros((1, 5), np.int64)
GOES_ON = np.zeros(1, np.bool_)
ZONE = 1
"""Of agent 1."""
EXPLOITED = raw_record(shells=((0, USER),))


class Team:
    """A team that decides nothing, in one env. carries: whether its messages arrive."""

    def __init__(self, carries: bool = True) -> None:
        self.rows = ViewRows(1, "belief", "steadfast")
        self._simulator, self._carries = BatchedSimulator(1, shows_raw=True), carries
        self._simulator.reset([3])
        self.rows.begin([0], np.zeros((1, N_OBS), np.int8), ALL_HOSTS, raw_record(), FREE)

    def step(self, record: Any = None) -> list[Any]:
        """Return the actions after a step that showed `record`. CybORG's simulator carries the
        messages."""
        obs = np.zeros((1, N_OBS), np.int8)
        if self._carries:
            obs = self._simulator.step(SLEEP[None], self.rows.sent)[0]
        record = raw_record() if record is None else record
        self.rows.after([0], SLEEP[None], obs, record, FREE, GOES_ON)
        actions = self.rows.play([0], SLEEP[None])
        return [ACTIONS[agent][action] for agent, action in enumerate(actions[0].tolist())]

    def restores(self, steps: int, record: Any = None) -> bool:
        """Whether the agents of one zone restore after so many steps, of which each showed
        `record`."""
        for _ in range(steps):
            actions = self.step(record)
        return [action.kind for action in actions[:4]] == ["Restore"] * 4


def test_the_gate_opens_after_a_span_without_exploits() -> None:
    team = Team()
    assert not team.restores(SPAN - 1)
    assert team.restores(1)


def test_one_exploit_in_a_span_keeps_the_gate_shut() -> None:
    team = Team()
    team.step(EXPLOITED)
    assert not team.restores(SPAN - 1)
    team.step(EXPLOITED)
    assert not team.restores(SPAN - 2)
    # Two exploits in 200 steps, and then none in 100.
    assert team.restores(3)


def test_who_is_not_heard_counts_as_one_that_sees_exploits() -> None:
    assert not Team(carries=False).restores(2 * SPAN)


def decoy(pid: int) -> Any:
    record = raw_record(decoy=(ZONE, USER))
    record["decoy_pid"][0, NUMBERS[ZONE, USER]] = pid
    return record


@pytest.mark.parametrize(
    ("apart", "chance"),
    [
        (1, 0.0),  # Two processes are at least 2 apart.
        (MOST_APART, 2 * MAILS * (8 / 81) / (2 * MAILS * (8 / 81) + (1 - 2 * MAILS) / 9)),
        (MOST_APART + 1, 1.0),
    ],
)
def test_the_pids_of_two_decoys_tell_whether_a_session_came_between(
    apart: int, chance: float
) -> None:
    belief = Belief(1)
    gate, envs = Gate(belief), [0]
    belief.begin(envs, ALL_HOSTS, raw_record())
    gate.begin(envs)
    obs = np.zeros((1, N_OBS), np.int8)
    for record in (decoy(1000), raw_record(), decoy(1000 + apart)):
        belief.update(envs, record)
        gate.see(envs, obs, record)
    # A session may have come before the first decoy, too.
    before = gate.hidden(envs)[0, ZONE, USER]
    expected = 1 - (1 - MAILS) * (1 - chance)
    assert before == pytest.approx(expected, abs=2e-5)


def test_a_host_that_attacks_come_from_is_restored_first() -> None:
    team = Team()
    team.restores(SPAN)
    actions = team.step(raw_record(shells=((ZONE, USER),)))
    assert actions[1].kind == "Restore"
    assert actions[1].host == AGENT_HOSTS[1][USER]


def test_the_released_team_has_the_champions_policies() -> None:
    (champion, played), (steadfast, kept) = map(load_policy_or_team, RELEASED.values())
    assert isinstance(champion, TeamParameters)
    assert isinstance(steadfast, TeamParameters)
    for name, policy in champion.parameters.items():
        for array, same in zip(policy.weights, steadfast.parameters[name].weights, strict=True):
            np.testing.assert_array_equal(array, same)
    assert kept["env_args"] == {**played["env_args"], "actions": "steadfast"}


def test_the_messages_are_the_teams_own() -> None:
    with pytest.raises(ConfigError, match="sends its own"):
        Cage4Arguments(observation="belief", actions="steadfast", messages="alerts")
    with pytest.raises(ConfigError, match="steadfast needs the observation belief"):
        Cage4Arguments(actions="steadfast")
