"""Attackers of CAGE-4 that are written in Python, and play Red in both simulators.

An attacker is an object with the two methods of `RedProgram`. One attacker plays all six red agents
of an episode. In each step, `act` is called for every agent that has a session and is not busy, in
the order of the agents' numbers.

    class Patient:
        def begin(self, random):
            self.random = random

        def act(self, seen):
            return "Sleep" if self.random.random() < 0.5 else self.random.choice(seen.possible)
"""

import copy
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.team import ACTS
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.cage.attackers import Attacker, AttackerError
from workflow_rl.cage.red_program import RedProgram, action_index, indices_of
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.red.red_api import RED_CHOICES, RED_HOSTS, RED_TEAM
from workflow_rl.cage4.scenario.scenario4 import FALSE, HOST_NAMES, TRUE

ACTION_NAMES = tuple(tuple(map(str, choices)) for choices in RED_CHOICES)
"""Each agent's action names, by index. A name is "Sleep", "DiscoverRemoteSystems ZONE", or a kind
and a host, such as "Impact operational_zone_a_subnet_server_host_0"."""
HOSTS = tuple(tuple(HOST_NAMES[host] for host in hosts) for hosts in RED_HOSTS)
"""The names of the hosts that each agent can learn of."""


class AgentSees:
    """What one red agent has observed up to now, and which actions are possible.

    The object is valid until Red acts.

    agent: the agent's number, 0 to 5. Agent 0 begins in the contractor's network. The other agents
        enter through mails, or through hosts that an earlier agent took.
    step: how many steps of the episode have been played.
    obs: uint8 vector, this agent's observation in `workflow_rl/CAGE4-red-v0`.
    mask: bool `[A]`, true for each action whose target this agent knows. Other actions fail.
    """

    def __init__(self, agent: int, step: int, row: NDArray[np.uint8]) -> None:
        self.agent = agent
        self.step = step
        first = red_api.FIRST_RED_OBS[agent]
        self.obs = row[first : first + red_api.RED_OBS_SIZES[agent]]
        first_choice = red_api.FIRST_RED_CHOICE[agent]
        self.mask = row[first_choice : first_choice + red_api.N_RED_CHOICES[agent]].view(np.bool_)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names `[A]` of this agent's actions, by index."""
        return ACTION_NAMES[self.agent]

    @property
    def possible(self) -> list[str]:
        """The names of the actions that the mask allows, by index. The first name is Sleep."""
        names = ACTION_NAMES[self.agent]
        return [names[index] for index in np.flatnonzero(self.mask).tolist()]

    def can(self, action: str) -> bool:
        """Return whether the mask allows the action of this name."""
        return bool(self.mask[indices_of(self.action_names)[action]])

    @property
    def success(self) -> bool | None:
        """Whether this agent's last action succeeded. None: the action is in progress, or CybORG
        does not tell the outcome."""
        # OUTCOMES counts from 1.
        outcome = 1 + int(self.obs[red_api.SUCCESS : red_api.KIND].argmax())
        return {TRUE: True, FALSE: False}.get(outcome)

    @property
    def phase(self) -> int:
        """The phase: 0 before the missions, 1 in mission A, 2 in mission B."""
        return int(self.obs[: red_api.SUCCESS].argmax())

    @property
    def known(self) -> list[str]:
        """The hosts whose addresses this agent knows."""
        return self._hosts_with(red_api.ADDRESS)

    @property
    def sessions(self) -> list[str]:
        """The hosts on which this agent has a session."""
        return self._hosts_with(red_api.SESSION)

    @property
    def roots(self) -> list[str]:
        """The hosts on which this agent has root's session."""
        return self._hosts_with(red_api.ROOT)

    def ports(self, host: str) -> list[int]:
        """Return the open ports that this agent's scans have found on a host."""
        index = HOSTS[self.agent].index(host)
        is_open = self._features[red_api.PORT : red_api.STATE, index]
        return [red_api.PORTS[i] for i in np.flatnonzero(is_open).tolist()]

    @property
    def _features(self) -> NDArray[np.uint8]:
        n_facts = red_api.N_FACTS[self.agent]
        return self.obs[n_facts:].reshape(red_api.N_FEATURES, red_api.N_HOSTS_OF[self.agent])

    def _hosts_with(self, feature: int) -> list[str]:
        hosts = HOSTS[self.agent]
        return [hosts[i] for i in np.flatnonzero(self._features[feature]).tolist()]


class PythonReds:
    """An attacker that plays the red team in many envs, with the methods of a `TeamPolicy`.

    A worker process receives only the attacker's name, and imports the attacker's class.
    """

    def __init__(self, attacker: Attacker) -> None:
        self._attacker = attacker
        self._programs: dict[int, RedProgram] = {}
        self._steps: dict[int, int] = {}

    def reset(self, seed: int, env: int = 0) -> None:
        """Begin an episode. The attacker's random numbers follow from the seed."""
        if env not in self._programs:
            red = red_program(self._attacker)
            self._programs[env] = red() if isinstance(red, type) else copy.deepcopy(red)
        self._steps[env] = 0
        self._programs[env].begin(random.Random(seed))

    def act(
        self, rows: NDArray[np.uint8], envs: Sequence[int] = (0,)
    ) -> tuple[NDArray[np.int64], None]:
        """Return the choices `[M, 6]` of the agents in M envs. An agent that is busy, or has no
        session, sleeps. rows: see `red_api.red_layout`. Raises AttackerError."""
        choices = np.zeros((len(envs), len(RED_TEAM)), np.int64)
        status = rows[:, red_api.FIRST_STATUS : red_api.FIRST_STATUS + len(RED_TEAM)]
        for i, agent in np.argwhere(status == ACTS).tolist():
            env = envs[i]
            seen = AgentSees(agent, self._steps[env], rows[i])
            try:
                action = self._programs[env].act(seen)
                choices[i, agent] = action_index(action, ACTION_NAMES[agent], RED_TEAM[agent])
            except Exception as error:
                problem = f"fails in step {self._steps[env]}: {in_one_line(error)}"
                raise AttackerError(f"{self._attacker.name} {problem}", env) from error
        for env in envs:
            self._steps[env] += 1
        return choices, None


def red_program(attacker: Attacker) -> Any:
    """Import the attacker's module, and return the class or object there. Raises AttackerError."""
    needs_cyborg = f"{attacker.name} is an agent of CybORG: choose the simulator cyborg"
    try:
        red = attacker.found()
    except AttackerError as error:
        if "No module named 'CybORG" in str(error):
            raise AttackerError(needs_cyborg) from error
        raise
    if hasattr(red, "begin") and hasattr(red, "act"):
        return red
    if hasattr(red, "get_action"):
        raise AttackerError(needs_cyborg)
    raise AttackerError(f"{attacker.name} is no red agent: it needs the methods begin and act")
