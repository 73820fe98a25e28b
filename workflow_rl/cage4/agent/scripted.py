"""Blue teams without learning: baselines, and teams that reach seldom seen states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.actions import BLUE
from workflow_rl.cage4.agent.released_team import released_team
from workflow_rl.cage4.agent.rules import ROBUST_RULES, RuleTeam
from workflow_rl.cage4.released import RELEASED

Look: TypeAlias = Callable[[], NDArray[Any]]
SHORTEST_BURST, LONGEST_BURST = 3, 30


class ScriptedTeam(Protocol):
    """Five blue agents. An object plays one episode at a time.

    reads_raw: whether the team calls `look`. Such a team reads nothing but messages in vectors.
    """

    @property
    def reads_raw(self) -> bool: ...

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        """Begin an episode. masks: as `Simulator.masks`. seed: of the team's own draws."""

    def act(
        self, observations: Sequence[NDArray[np.int64]], look: Look
    ) -> tuple[list[int], NDArray[np.bool_] | None]:
        """Return five actions, and messages `[5, 8]` or None, as `Simulator.step` takes them.

        observations: the five vectors of the last step, or of the reset. look: returns the raw
            observations of the same step; see `Simulator.raw_arrays`.
        """


class SleepingTeam:
    """It does nothing."""

    reads_raw = False

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        pass

    def act(self, observations: Any, look: Any = None) -> tuple[list[int], None]:
        return list(scenario4.SLEEP_ACTIONS), None


class RandomTeam:
    """It draws possible actions of some kinds, and messages.

    kinds: CybORG's classes of actions, all if empty.
    """

    reads_raw = False

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        self._generator = np.random.default_rng([seed, 4])
        kinds = self._kinds or tuple(BLUE)
        self._options = [
            [i for i, action in enumerate(actions) if mask[i] and action.kind in kinds]
            for actions, mask in zip(scenario4.ACTIONS, masks, strict=True)
        ]

    def act(self, observations: Any, look: Any = None) -> tuple[list[int], NDArray[np.bool_]]:
        draw = self._generator.integers
        actions = [options[draw(len(options))] for options in self._options]
        return actions, draw(0, 2, (len(scenario4.AGENTS), scenario4.MESSAGE_BITS)).astype(np.bool_)


class BurstTeam(RandomTeam):
    """Each agent repeats one possible action for some steps, then another one."""

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        super().reset(masks, seed)
        self._last = list(scenario4.SLEEP_ACTIONS)
        self._steps_left = [0] * len(scenario4.AGENTS)

    def act(self, observations: Any, look: Any = None) -> tuple[list[int], NDArray[np.bool_]]:
        drawn, messages = super().act(observations, look)
        for agent in range(len(scenario4.AGENTS)):
            if self._steps_left[agent] == 0:
                self._last[agent] = drawn[agent]
                burst = self._generator.integers(SHORTEST_BURST, LONGEST_BURST, endpoint=True)
                self._steps_left[agent] = int(burst)
            self._steps_left[agent] -= 1
        return list(self._last), messages


class RestoringTeam:
    """Each agent restores a host with an event, and otherwise sleeps.

    An event shows for one step. An agent remembers for some steps which hosts had events, and
    restores the host that had one most recently. Events of processes are seldom false.

    Args:
        on_connections: events of connections count too, which scans and greens cause as well.
        memory: steps for which an event is remembered; 1 is the last step alone.
    """

    reads_raw = False

    def __init__(self, on_connections: bool, memory: int) -> None:
        self._on_connections = on_connections
        self._memory = memory

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        self._steps_since_event = [
            np.full(len(hosts), self._memory) for hosts in scenario4.AGENT_HOSTS
        ]
        self._busy_steps = [0] * len(scenario4.AGENTS)

    def act(
        self, observations: Sequence[NDArray[np.int64]], look: Any = None
    ) -> tuple[list[int], None]:
        actions = list(scenario4.SLEEP_ACTIONS)
        for agent, observation in enumerate(observations):
            seen = _hosts_with_events(agent, observation, self._on_connections)
            self._steps_since_event[agent] += 1
            self._steps_since_event[agent][seen] = 0
            if self._busy_steps[agent] > 0:
                self._busy_steps[agent] -= 1
                continue
            host = int(np.argmin(self._steps_since_event[agent]))
            if self._steps_since_event[agent][host] < self._memory:
                actions[agent] = int(scenario4.FIRST_OF_KIND["Restore"][agent]) + host
                self._steps_since_event[agent][host] = self._memory
                self._busy_steps[agent] = BLUE["Restore"].duration - 1
        return actions, None


def _hosts_with_events(
    agent: int, observation: NDArray[np.int64], on_connections: bool
) -> NDArray[np.bool_]:
    """Return `[16]` or `[48]`: which of AGENT_HOSTS have an event in the observation."""
    n_zones = len(scenario4.AGENT_ZONES[agent])
    zones = observation[1 : 1 + n_zones * scenario4.BITS_OF_A_ZONE].reshape(
        n_zones, scenario4.BITS_OF_A_ZONE
    )
    events = zones[:, scenario4.BITS_ABOUT_ZONES :].reshape(n_zones, 2, scenario4.HOSTS_OF_A_ZONE)
    seen = events.any(axis=1) if on_connections else events[:, 0] > 0
    return seen.ravel()


BASELINES: dict[str, Callable[[], ScriptedTeam]] = {
    "sleep": SleepingTeam,
    "random": RandomTeam,
    "restore-when-seen": lambda: RestoringTeam(on_connections=False, memory=8),
}
"""Teams whose scores are measured."""
TEAMS: dict[str, Callable[[], ScriptedTeam]] = {
    **BASELINES,
    "bursts": BurstTeam,
    "blocks": lambda: RandomTeam("BlockTrafficZone"),
    "decoys": lambda: RandomTeam("DeployDecoy"),
    "restores": lambda: RandomTeam("Restore"),
    "restore-all-seen": lambda: RestoringTeam(on_connections=True, memory=1),
    "rules": RuleTeam,
    "robust-rules": lambda: RuleTeam(ROBUST_RULES),
    **{name: functools.partial(released_team, name) for name in RELEASED},
}


def make_scripted_team(name: str) -> ScriptedTeam:
    """Return one of TEAMS. Raises ValueError."""
    if name not in TEAMS:
        raise ValueError(f"blue={name!r}: choose one of {', '.join(TEAMS)}")
    return TEAMS[name]()
