"""What a team does that sees nothing of red."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import ALL_HOSTS, OTHER_USER, USER, raw_record
from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.agents.settings import ConfigError
from workflow_rl.cage4.agent.hidden_red_timer import LONG, MOST_APART
from workflow_rl.cage4.agent.raw_record import NUMBERS
from workflow_rl.cage4.agent.trained_teams import RELEASED
from workflow_rl.cage4.agent.views import SLEEP, ViewRows
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.env.arguments import Cage4Arguments
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, AGENT_HOSTS, N_OBS, PHASE_STARTS

FREE = np.zeros((1, 5), np.int64)
GOES_ON = np.zeros(1, np.bool_)
ZONE = 1
"""Of agent 1."""


class Team:
    """A team that decides nothing, in one env. carries: whether its messages arrive."""

    def __init__(self, carries: bool = True) -> None:
        self.rows = ViewRows(1, "belief", "watchful")
        self._simulator, self._carries = BatchedSimulator(1, shows_raw=True), carries
        self._simulator.reset([3])
        self.rows.begin([0], np.zeros((1, N_OBS), np.int8), ALL_HOSTS, raw_record(), FREE)

    def step(self, record: Any = None, taken: Any = SLEEP[None]) -> list[Any]:
        """Return the actions after a step that showed `record`. CybORG's simulator carries the
        messages."""
        obs = np.zeros((1, N_OBS), np.int8)
        if self._carries:
            obs = self._simulator.step(SLEEP[None], self.rows.sent)[0]
        record = raw_record() if record is None else record
        self.rows.after([0], taken, obs, record, FREE, GOES_ON)
        actions = self.rows.play([0], SLEEP[None])
        return [ACTIONS[agent][action] for agent, action in enumerate(actions[0].tolist())]

    def after(self, steps: int, record: Any = None) -> list[Any]:
        for _ in range(steps - 1):
            self.step(record)
        return self.step(record)


def decoy(pid: int, host: int = USER) -> Any:
    record = raw_record(decoy=(ZONE, host))
    record["decoy_pid"][0, NUMBERS[ZONE, host]] = pid
    return record


def kinds(actions: list[Any]) -> list[str]:
    return [action.kind for action in actions]


@pytest.mark.parametrize(("apart", "is_found"), [(MOST_APART, False), (MOST_APART + 1, True)])
def test_agents_restore_in_turn_once_all_is_silent_and_a_decoy_found_a_session(
    apart: int, is_found: bool
) -> None:
    team = Team()
    team.step(decoy(1000))
    team.step(decoy(1000 + apart))
    assert kinds(team.after(int(LONG[0]) - 4)) != ["Restore"] * 4 + ["DeployDecoy"]
    actions = team.after(3)
    assert kinds(actions) == (["Restore"] * 4 if is_found else ["DeployDecoy"] * 4) + [
        "DeployDecoy"
    ]
    if is_found:
        # The host with the session comes first, and then those that were never restored.
        assert actions[1].host == AGENT_HOSTS[1][USER]
        restore = ACTIONS[1].index(actions[1])
        taken = SLEEP[None].copy()
        taken[0, 1] = restore
        after = team.step(taken=taken)
        assert after[1].kind == "Restore"
        assert after[1].host != actions[1].host


def test_a_probe_goes_to_the_host_that_was_probed_longest_ago() -> None:
    team = Team()
    team.after(int(LONG[0]))
    for host in range(6, 16):
        if host != OTHER_USER:
            actions = team.step(decoy(1000, host))
    assert actions[1].kind == "DeployDecoy"
    assert actions[1].host == AGENT_HOSTS[1][OTHER_USER]


def test_two_noisy_zones_hide_nothing_and_three_do() -> None:
    for noisy, is_quiet in ((2, True), (3, False)):
        team = Team()
        shells = tuple((zone, USER) for zone in (0, 2, 3)[:noisy])
        team.step(decoy(1000))
        team.step(decoy(1010))
        actions = team.after(int(LONG[0]) + 5, raw_record(shells=shells))
        assert (actions[1].kind == "Restore") == is_quiet


def test_who_is_not_heard_counts_as_one_that_sees_red() -> None:
    team = Team(carries=False)
    team.step(decoy(1000))
    team.step(decoy(1010))
    assert "Restore" not in kinds(team.after(PHASE_STARTS[1] - 10))


def test_the_released_team_has_the_champions_policies() -> None:
    (champion, played), (watchful, watched) = map(load_policy_or_team, RELEASED.values())
    assert isinstance(champion, TeamParameters)
    assert isinstance(watchful, TeamParameters)
    for name, policy in champion.parameters.items():
        for array, same in zip(policy.weights, watchful.parameters[name].weights, strict=True):
            np.testing.assert_array_equal(array, same)
    assert watched["env_args"] == {**played["env_args"], "actions": "watchful"}


def test_the_messages_are_the_teams_own() -> None:
    with pytest.raises(ConfigError, match="sends its own"):
        Cage4Arguments(observation="belief", actions="watchful", messages="alerts")
    with pytest.raises(ConfigError, match="watchful needs the observation belief"):
        Cage4Arguments(actions="watchful")
