import numpy as np

from workflow_rl.cage4.red.red_api import (
    N_RED_CHOICES,
    RED_CHOICES,
    RED_HOSTS,
    RED_OBS_SIZES,
    RedAction,
    known_choices,
    red_layout,
)


def test_agents_can_act_on_their_hosts_and_on_servers_that_they_are_shown() -> None:
    assert [len(hosts) for hosts in RED_HOSTS] == [19, 18, 17, 18, 17, 49]
    targets = {action.target for action in RED_CHOICES[2]}
    assert "operational_zone_a_subnet" in targets
    assert "restricted_zone_a_subnet_server_host_0" in targets
    assert "restricted_zone_a_subnet_server_host_1" not in targets


def test_sleep_comes_first_and_no_action_twice() -> None:
    for actions in RED_CHOICES:
        assert actions[0] == RedAction("Sleep")
        assert len(set(actions)) == len(actions)


def test_what_is_known_decides_what_is_possible() -> None:
    addresses, names = np.zeros((2, 17), np.bool_)
    addresses[[3, 5]] = names[5] = True
    possible = known_choices(2, addresses, names, np.array([True]))
    assert len(possible) == N_RED_CHOICES[2]
    kinds = [RED_CHOICES[2][i].kind for i in np.flatnonzero(possible)]
    assert kinds.count("ExploitRemoteService") == kinds.count("DiscoverDeception") == 2
    assert kinds.count("PrivilegeEscalate") == kinds.count("Withdraw") == 1


def test_agents_of_like_zones_can_share_a_policy() -> None:
    layout = red_layout()
    assert layout.obs_sizes == RED_OBS_SIZES
    assert layout.entities[1] == layout.entities[3]
    first = [n for n, host in enumerate(RED_HOSTS[0]) if host % 17 == 11]
    assert layout.entities[0]["edges"]["zone_crossings"] == [
        [a, b, -1]
        for a in first
        for b in first
        if 4 in (RED_HOSTS[0][a] // 17, RED_HOSTS[0][b] // 17) and a != b
    ]
    assert layout.row_size == sum(RED_OBS_SIZES) + 6 + sum(N_RED_CHOICES)
