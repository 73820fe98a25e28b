"""Blue teams that do not learn: baselines, and teams that lead simulators into rare states."""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.belief import RESTORE, Bits, Joint
from workflow_rl.cage4.agent.blue_team import BlueSees, SingleTeam, TeamMaker
from workflow_rl.cage4.agent.rules import ROBUST_RULES, RuleTeam, most_urgent
from workflow_rl.cage4.agent.trained_teams import RELEASED, released_team
from workflow_rl.cage4.agent.views import ALL_KINDS, SLEEP
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.actions import BLUE

SHORTEST_BURST, LONGEST_BURST = 3, 30


class SleepingTeam:
    """A team that sleeps in every step."""

    reads_raw = False

    def __init__(self, n_envs: int = 1) -> None:
        pass

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        pass

    def act(self, envs: Sequence[int]) -> tuple[Joint, None]:
        return np.tile(SLEEP, (len(envs), 1)), None

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        pass


class RandomTeam:
    """A team that draws its messages at random, and its actions from the possible actions.

    kinds: the names of CybORG's classes of actions to draw from."""

    reads_raw = False

    def __init__(self, n_envs: int = 1, kinds: Sequence[str] = tuple(BLUE)) -> None:
        self._is_of_kinds = np.isin(ALL_KINDS, kinds)
        self._generators: dict[int, np.random.Generator] = {}
        self._options: dict[int, list[NDArray[np.int64]]] = {}

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        for env, seed, mask in zip(envs, seeds, masks, strict=True):
            self._generators[env] = np.random.default_rng([seed, 4])
            of_agents = np.split(mask & self._is_of_kinds, scenario4.FIRST_ACTION[1:])
            self._options[env] = [np.flatnonzero(possible) for possible in of_agents]

    def act(self, envs: Sequence[int]) -> tuple[Joint, Bits]:
        drawn = [self._draw(env) for env in envs]
        actions = np.array([actions for actions, _ in drawn])
        return actions, np.array([messages for _, messages in drawn])

    def _draw(self, env: int) -> tuple[list[int], Bits]:
        """Return actions `[5]` and messages `[5, 8]` for one env."""
        draw = self._generators[env].integers
        actions = [int(options[draw(len(options))]) for options in self._options[env]]
        shape = len(scenario4.AGENTS), scenario4.MESSAGE_BITS
        return actions, draw(0, 2, shape).astype(np.bool_)

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        pass


class BurstTeam(RandomTeam):
    """A team whose agents each draw a possible action, and repeat the action for 3 to 30 steps."""

    def __init__(self, n_envs: int = 1) -> None:
        super().__init__(n_envs)
        self._repeated, self._steps_left = np.zeros((2, n_envs, len(scenario4.AGENTS)), np.int64)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        super().begin(envs, seeds, masks, seen)
        self._steps_left[envs] = 0

    def _draw(self, env: int) -> tuple[list[int], Bits]:
        drawn, messages = super()._draw(env)
        for agent in range(len(scenario4.AGENTS)):
            if self._steps_left[env, agent] == 0:
                self._repeated[env, agent] = drawn[agent]
                burst = self._generators[env].integers(SHORTEST_BURST, LONGEST_BURST, endpoint=True)
                self._steps_left[env, agent] = burst
            self._steps_left[env, agent] -= 1
        return self._repeated[env].tolist(), messages


class RestoringTeam:
    """A team whose agents each restore the host with the latest event, or sleep if there is none.

    An observation shows an event for one step. Few events of processes are false alerts.

    Args:
        on_connections: whether events of connections count too. Scans and greens also cause them.
        memory: for how many steps an agent remembers an event. 1 means the last step's events."""

    reads_raw = False

    def __init__(self, n_envs: int = 1, *, on_connections: bool, memory: int) -> None:
        self._on_connections = on_connections
        self._memory = memory
        self._steps_since_event = np.zeros((n_envs, *scenario4.PROCESSES.shape), np.int64)
        self._is_free = np.ones((n_envs, len(scenario4.AGENTS)), np.bool_)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], masks: Bits, seen: BlueSees) -> None:
        self._steps_since_event[envs] = self._memory
        self._look(envs, seen)

    def act(self, envs: Sequence[int]) -> tuple[Joint, None]:
        freshness = self._memory - self._steps_since_event[envs]
        restores = most_urgent(np.where(freshness > 0, RESTORE, 0), np.maximum(freshness, 0))
        return np.where(self._is_free[envs], restores, SLEEP), None

    def see(self, envs: Sequence[int], taken: Joint, seen: BlueSees) -> None:
        is_played = np.zeros((len(envs), scenario4.N_MASKS), np.bool_)
        np.put_along_axis(is_played, scenario4.FIRST_ACTION + taken, True, axis=1)
        is_restored = is_played[:, scenario4.ON_HOSTS["Restore"]]
        since = np.where(is_restored, self._memory, self._steps_since_event[envs])
        self._steps_since_event[envs] = since
        self._look(envs, seen)

    def _look(self, envs: Sequence[int], seen: BlueSees) -> None:
        has_event = seen.obs[:, scenario4.PROCESSES] > 0
        if self._on_connections:
            has_event |= seen.obs[:, scenario4.PROCESSES + scenario4.HOSTS_OF_A_ZONE] > 0
        self._steps_since_event[envs] = np.where(has_event, 0, self._steps_since_event[envs] + 1)
        self._is_free[envs] = seen.busy == 0


TEAMS: Mapping[str, TeamMaker] = {
    "sleep": SleepingTeam,
    "random": RandomTeam,
    "restore-when-seen": functools.partial(RestoringTeam, on_connections=False, memory=8),
    "bursts": BurstTeam,
    "blocks": functools.partial(RandomTeam, kinds=("BlockTrafficZone",)),
    "decoys": functools.partial(RandomTeam, kinds=("DeployDecoy",)),
    "restores": functools.partial(RandomTeam, kinds=("Restore",)),
    "restore-all-seen": functools.partial(RestoringTeam, on_connections=True, memory=1),
    "rules": RuleTeam,
    "robust-rules": functools.partial(RuleTeam, rules=ROBUST_RULES),
    **{name: functools.partial(released_team, name) for name in RELEASED},
}


def make_scripted_team(name: str) -> SingleTeam:
    """Return the team of this name in TEAMS, made for one env. Raises ValueError."""
    if name not in TEAMS:
        raise ValueError(f"blue={name!r}: choose one of {', '.join(TEAMS)}")
    return SingleTeam(TEAMS[name](1))
