"""A simulator whose Red is watched: what it has observed, what it chose among, and what it chose.

The compiled simulator plays Red, or CybORG where that alone plays the red agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.attackers import RESTATED, PolicyAttacker, SeenBatch
from workflow_rl.cage2.interface import OWN_RED
from workflow_rl.cage2.own_reds import acts_in_cyborg, batch_of, found
from workflow_rl.cage2.reds import REDS
from workflow_rl.cage2.scenario2 import RED_ACTION_NAMES, RED_ACTIONS, RED_OBS_SIZE, RED_TARGETS
from workflow_rl.cage2.scoring.decisions import Decision, WatchedPolicy, likeliest, probabilities

if TYPE_CHECKING:
    from workflow_rl.cage2.env.cage2_env import Cage2Env


class ShownToRed(NamedTuple):
    """What Red has observed. row: `[ROW_SIZE]`, see `attackers.SeenBatch`. observation: of the last
    action, see `attackers.Seen`."""

    row: NDArray[np.uint8]
    observation: dict[str, Any]

    @property
    def possible(self) -> tuple[int, ...]:
        """The actions that can do anything: indices into `RED_ACTION_NAMES`."""
        return tuple(np.flatnonzero(self.row[RED_OBS_SIZE:]).tolist())


@dataclass(frozen=True)
class RedChoice:
    """How Red chose an action.

    action: of `RED_ACTION_NAMES`, or "InvalidAction". possible: indices of the actions that could
    do anything. observation: what CybORG had shown Red of its action before, see `attackers.Seen`.
    decision: of a trained red agent; None for others.
    """

    action: str
    possible: tuple[int, ...]
    observation: dict[str, Any]
    decision: Decision | None


class CompiledRed:
    """A simulator of one red agent, which `reset` calls `name`: the compiled one.

    It asks this object, an `AttackerBatch`, for Red's actions.
    """

    name = OWN_RED

    def __init__(self, red: Any, max_steps: int) -> None:
        from workflow_rl.cage2.compiled.red_simulator import RedSimulator
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self._policy, self._attacker = None, batch_of(red)
        if isinstance(red, PolicyAttacker):
            assert isinstance(red.actor, NumpyPolicy)
            self._policy = WatchedPolicy(red.actor)
            self._attacker = PolicyAttacker(self._policy)
        self.simulator = CompiledSimulator(max_steps, {OWN_RED: self})
        batch = self.simulator._simulator
        assert isinstance(batch, RedSimulator)
        self._batch = batch

    def begin(self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[Any]) -> None:
        """See `attackers.AttackerBatch`."""
        self._attacker.begin(envs, seeds, generators)

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        """See `attackers.AttackerBatch`."""
        actions = self._attacker.act(envs, seen)
        self._action = int(actions[0])
        return actions

    def shown(self, action: str = "Sleep") -> ShownToRed:
        """Return what Red has observed. Call it once after a reset and after each step, whose
        action is Red's."""
        return ShownToRed(self._batch.rows[0].copy(), self._batch.observation(0))

    def chosen(self) -> tuple[str, Decision | None]:
        """Return Red's last action, and how a trained red agent decided."""
        name = RED_ACTION_NAMES[self._action]
        if self._policy is None or self._policy.outputs is None:
            return name, None
        probability = probabilities(self._policy.outputs)
        return name, Decision(likeliest(probability, self._action, RED_ACTION_NAMES))


class CybORGRed:
    """A simulator of one red agent of csle-cyborg's kind: CybORG. See `CompiledRed`."""

    def __init__(self, env: Cage2Env, name: str) -> None:
        from workflow_rl.cage2.cyborg.red_side import ShownRed

        self.env, self.name = env, name
        self.simulator = env._simulator
        self._shown = ShownRed(env)

    def shown(self, action: str = "Sleep") -> ShownToRed:
        seen = self._shown.after(action)
        return ShownToRed(np.array(seen["red_row"], np.uint8), seen["red_observation"])

    def chosen(self) -> tuple[str, None]:
        _, action, target, _, _ = self.simulator.facts
        name = RED_ACTIONS[action] if action >= 0 else "InvalidAction"
        return name if target < 0 else f"{name} {RED_TARGETS[target]}", None


def watched(red_agent: str, max_steps: int) -> CompiledRed | CybORGRed:
    """Return a simulator of a red agent, given by its name. Raises AttackerError."""
    red = RESTATED.get(red_agent) or found(REDS.member(red_agent))
    if not acts_in_cyborg(red):
        return CompiledRed(red, max_steps)
    from workflow_rl.cage2.env.cage2_env import Cage2Env

    return CybORGRed(Cage2Env(red_agent, max_steps), red_agent)
