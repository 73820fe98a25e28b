import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import raw_record
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, AGENT_HOSTS, OBS_SIZES, SLEEP_ACTIONS

FREE, BUSY = [0] * 5, [1] * 5


def observations() -> list[np.ndarray]:
    return [np.zeros(size, np.int64) for size in OBS_SIZES]


def masks() -> list[np.ndarray]:
    """The servers 4 and 5 and the users 8 and 9 do not exist."""
    missing = ("server_host_4", "server_host_5", "user_host_8", "user_host_9")
    return [np.array([not a.host.endswith(missing) for a in actions]) for actions in ACTIONS]


@pytest.mark.parametrize("name", TEAMS)
def test_teams_take_possible_actions_that_the_seed_decides(name: str) -> None:
    def play(seed: int) -> str:
        team = make_scripted_team(name)
        team.reset(masks(), seed)
        steps = [team.act(observations(), raw_record, FREE) for _ in range(40)]
        for actions, _ in steps:
            assert all(mask[action] for mask, action in zip(masks(), actions, strict=True))
        return repr(steps)

    assert play(1) == play(1)
    if name in ("random", "bursts", "blocks", "decoys", "restores"):
        assert play(1) != play(2)


@pytest.mark.parametrize(("agent", "zone"), [(0, 0), (4, 2)])
def test_a_host_with_a_process_event_is_restored_once_free(agent: int, zone: int) -> None:
    team = make_scripted_team("restore-when-seen")
    team.reset(masks(), 1)
    seen = observations()
    host = 16 * zone + 7
    seen[agent][1 + 59 * zone + 27 + 7] = 1
    first = team.act(seen, raw_record, FREE)[0]
    action = ACTIONS[agent][first[agent]]
    assert (action.kind, action.host) == ("Restore", AGENT_HOSTS[agent][host])
    # It costs to hand in another while the first one is in progress.
    while_busy = [team.act(seen, raw_record, BUSY)[0][agent] for _ in range(4)]
    assert while_busy == [SLEEP_ACTIONS[agent]] * 4
    assert team.act(observations(), raw_record, FREE)[0][agent] == first[agent]


def test_an_unknown_team_is_refused() -> None:
    with pytest.raises(ValueError, match="blue='winner': choose one of sleep, random"):
        make_scripted_team("winner")
