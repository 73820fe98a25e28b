"""Make users' own red agents ready to play: classes, objects and trained policies.

Who plays where:

- The challenge's red agents play in compiled code and in CybORG.
- Programs with `begin` and `act` (see `attackers`) and trained policies always play in compiled
  code, even if the simulator is "cyborg".
- Programs with `get_action`, the method of csle-cyborg's agents, always play in CybORG, even if the
  simulator is "compiled". Some uses need compiled code: a vector env, a teacher, and the
  observation true-state. There, `batches_of` refuses these programs.
- In a family of networks, only the challenge's red agents play: see `roster`."""

from __future__ import annotations

import copy
import dataclasses
import functools
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.attackers import Attacker, AttackerError, Attackers
from workflow_rl.cage.red_program import RedProgram
from workflow_rl.cage2.attackers import AttackerBatch, OneByOne, PolicyAttacker, SeenBatch
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_ENV_ID
from workflow_rl.errors import UserError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import NumpyPolicy


def with_policies(attackers: Attackers, scenario: Scenario) -> Attackers:
    """Return the attackers, with the policies of trained attackers loaded. So workers do not read
    policy files. scenario: the scenario that is played. Raises AttackerError."""
    members = (
        dataclasses.replace(member, given=found(member, scenario)) if member.is_path else member
        for member in attackers.members
    )
    return dataclasses.replace(attackers, members=tuple(members))


def found(attacker: Attacker, scenario: Scenario) -> Any:
    """Return an attacker's class, object or `PolicyAttacker`. This may import the class's module.

    scenario: the scenario that is played. Raises AttackerError."""
    if attacker.is_path:
        # The policy samples its actions. A policy that always takes its likeliest action may repeat
        # an action without effect.
        return PolicyAttacker(red_policy(attacker.name, greedy=False, scenario=scenario))
    red = attacker.found()
    if acts_in_cyborg(red) or (hasattr(red, "act") and hasattr(red, "begin")):
        return red
    raise AttackerError(
        f"{attacker.name} is no red agent: it needs the methods begin and act, or has to derive "
        "from csle-cyborg's BaseAgent"
    )


def acts_in_cyborg(red: Any) -> bool:
    """Return whether a class or object has the interface of csle-cyborg's agents."""
    return hasattr(red, "get_action")


def in_cyborg(attackers: Attackers, scenario: Scenario) -> list[str]:
    """Return the names of the users' red agents that always play in CybORG.

    All other red agents of users always play in compiled code. Raises AttackerError."""
    return [
        attacker.name for attacker in attackers.foreign if acts_in_cyborg(found(attacker, scenario))
    ]


def batch_of(red: Any) -> AttackerBatch:
    """Return a red agent as the `AttackerBatch` that compiled code needs.

    red: a class, an object, or a `PolicyAttacker`. Objects are copied."""
    if isinstance(red, PolicyAttacker):
        return copy.deepcopy(red)
    make = red if isinstance(red, type) else functools.partial(copy.deepcopy, red)
    return OneByOne(make)


def batches_of(
    attackers: Iterable[Attacker], scenario: Scenario, why: str = ""
) -> dict[str, AttackerBatch]:
    """Return the `AttackerBatch` of each attacker, by the attackers' names. Raises AttackerError.

    why: the reason why compiled code has to play, for the message."""
    reds = {attacker.name: found(attacker, scenario) for attacker in attackers}
    for name, red in reds.items():
        if acts_in_cyborg(red):
            problem = f"{name} acts as csle-cyborg's agents do, which compiled code does not play"
            raise AttackerError(f"{problem}: {why}" if why else problem)
    return {name: batch_of(red) for name, red in reds.items()}


def red_policy(name: str, greedy: bool, scenario: Scenario) -> NumpyPolicy:
    """Return the policy of a trained red agent. name: its run folder or policy file. scenario: the
    scenario that it plays. Raises AttackerError."""
    from workflow_rl.agents.policies.distributions import Categorical
    from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
    from workflow_rl.runs.saved_agent import load_saved

    if not Path(name).exists():
        raise AttackerError(
            f"{name}: there is no such folder or policy file of a trained red agent"
        )
    try:
        policy, environment = load_saved(Path(name), greedy=greedy)
    except UserError as error:
        raise AttackerError(str(error)) from error
    n, size = len(scenario.red_action_names), scenario.red_obs_size
    if environment.env_id == RED_ENV_ID:
        learned_in = Scenario.from_checked(environment.args["scenario"])
        if learned_in.red_action_names != scenario.red_action_names:
            raise AttackerError(
                f"{name} was trained in {learned_in}, which has other hosts than {scenario}"
            )
        if learned_in.is_cage1 != scenario.is_cage1:
            raise AttackerError(
                f"{name} was trained in {learned_in}, which has other rules than {scenario}"
            )
    if (
        not isinstance(policy, NumpyPolicy)
        or policy.network.n_inputs != size
        or policy.distribution != Categorical(n)
        or not policy.masked
    ):
        raise AttackerError(
            f"{name} was trained on {environment.env_id}: a red agent of {scenario.name} sees "
            f"{size} numbers and chooses from {n} actions with a mask"
        )
    return policy


class ProgramOnRows:
    """An attacker that gets only the rows of `SeenBatch`. It cannot read `Seen.addresses` and
    `Seen.observation`, because there is no simulator."""

    def __init__(self, make: Callable[[], RedProgram], action_names: tuple[str, ...]) -> None:
        self._attackers = OneByOne(make)
        self._action_names = action_names

    def reset(self, seed: int, env: int = 0) -> None:
        self._attackers.begin([env], [seed], [random.Random(seed)])

    def act(
        self, rows: NDArray[np.uint8], envs: Sequence[int] = (0,)
    ) -> tuple[NDArray[np.int64], None]:
        seen = SeenBatch(rows, self._action_names, None, envs)
        return self._attackers.act(envs, seen), None


def compile_for_users(scenario: Scenario, max_steps: int) -> None:
    """Compile the functions with which users' red agents and the challenge's red agents play."""
    from workflow_rl.cage.red_program import Asleep
    from workflow_rl.cage2.compiled.batched_simulator import CompiledEnvs
    from workflow_rl.cage2.compiled.description import tables_of
    from workflow_rl.cage2.compiled.red_simulator import RedSimulator
    from workflow_rl.cage2.scenario2 import RED_AGENTS
    from workflow_rl.environments.episode import EpisodeSpec

    batch = RedSimulator(1, max_steps, {"": OneByOne(Asleep)}, tables=tables_of(scenario))
    envs = CompiledEnvs(batch, max_steps)
    for red_agent in ("", RED_AGENTS[2]):
        envs.reset([0], [EpisodeSpec(0, red_agent, 0, 0)])
        envs.step([0], np.zeros(1, np.int64))
