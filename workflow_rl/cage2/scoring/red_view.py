"""Simulators for recordings. They tell what Red observed, which of Red's actions were possible, and
what Red chose.

The compiled simulator plays, or CybORG if only CybORG can play the red agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.actors import WatchedPolicy, probabilities
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.agent.blue import Decision, likeliest
from workflow_rl.cage2.attackers import CYBORG_REDS_IN_PYTHON, PolicyAttacker, SeenBatch
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.red.knowledge import RedKnowledge
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.red.user_reds import acts_in_cyborg, batch_of, found
from workflow_rl.cage2.scenario.actions import RED_ACTIONS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import OWN_RED, Facts
from workflow_rl.cage2.scenario2 import RED_AGENTS, SUCCESSES

if TYPE_CHECKING:
    from workflow_rl.cage2.env.cage2_env import Cage2Env


class ShownToRed(NamedTuple):
    """What Red observed. row: `[O + A]`, see `attackers.SeenBatch`. observation: what CybORG shows
    after Red's last action, see `attackers.Seen`, or None if this is unknown. n_actions: A."""

    row: NDArray[np.uint8]
    observation: dict[str, Any] | None
    n_actions: int

    @property
    def possible(self) -> tuple[int, ...]:
        """The actions in the mask: indices into `Scenario.red_action_names`."""
        return tuple(np.flatnonzero(self.row[-self.n_actions :]).tolist())


@dataclass(frozen=True)
class RedChoice:
    """How Red chose an action.

    action: one of `Scenario.red_action_names`, or "InvalidAction". possible, observation: see
    `ShownToRed`. decision: how a trained red agent decided, or None."""

    action: str
    possible: tuple[int, ...]
    observation: dict[str, Any] | None
    decision: Decision | None


class CompiledRed:
    """The compiled simulator with one red agent in Python. This object is an `AttackerBatch`, which
    the simulator asks for Red's actions. name: the red agent's name for the simulator's `reset`."""

    name = OWN_RED

    def __init__(self, red: Any, max_steps: int, scenario: Scenario) -> None:
        from workflow_rl.cage2.compiled.red_simulator import RedSimulator
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self._policy, self._attacker = None, batch_of(red)
        if isinstance(red, PolicyAttacker):
            assert isinstance(red.actor, NumpyPolicy)
            self._policy = WatchedPolicy(red.actor)
            self._attacker = PolicyAttacker(self._policy)
        self._names = scenario.red_action_names
        self.simulator = CompiledSimulator(max_steps, {OWN_RED: self}, tables_of(scenario))
        batch = self.simulator.batch
        assert isinstance(batch, RedSimulator)
        self._batch = batch

    def begin(self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[Any]) -> None:
        self._attacker.begin(envs, seeds, generators)

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        actions = self._attacker.act(envs, seen)
        self._action = int(actions[0])
        return actions

    def shown(self, action: str = "") -> ShownToRed:
        """Return what Red observed. Call this once after a reset, and once after each step with
        Red's action."""
        row, observation = self._batch.rows[0].copy(), self._batch.observation(0)
        return ShownToRed(row, observation, len(self._names))

    def chosen(self) -> tuple[str, Decision | None]:
        """Return Red's last action, and how a trained red agent decided."""
        name = self._names[self._action]
        if self._policy is None or self._policy.outputs is None:
            return name, None
        probability = probabilities(self._policy.outputs)
        return name, Decision(likeliest(probability, self._action, self._names))


def _action_in(facts: Facts, scenario: Scenario) -> str:
    """Return Red's action by its name in `Scenario.red_action_names`, or "InvalidAction"."""
    _, action, target, _, _ = facts
    name = RED_ACTIONS[action] if action >= 0 else "InvalidAction"
    return name if target < 0 else f"{name} {scenario.red_targets[target]}"


class OwnRed:
    """The compiled simulator with one of its compiled red agents: see `CompiledRed`."""

    def __init__(self, name: str, max_steps: int, scenario: Scenario) -> None:
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self.name, self._scenario = name, scenario
        self.simulator = CompiledSimulator(max_steps, tables=tables_of(scenario))
        self._knowledge = RedKnowledge(scenario)

    def shown(self, action: str = "") -> ShownToRed:
        state = self.simulator.state
        succeeded = None
        if not action:
            self._knowledge.forget()
        elif action != "Sleep":
            _, _, _, success, _ = self.simulator.facts
            succeeded = {"TRUE": True, "FALSE": False}.get(SUCCESSES[success])
        known = {
            f"{name} subnet": bool((state["known_subnets"] >> i) & 1)
            for i, name in enumerate(self._scenario.subnets)
        }
        masks = {"address": "known_addresses", "name": "known_hostnames"}
        masks["ports"] = "scanned_by_session"
        for fact, mask in masks.items():
            for i, name in enumerate(self._scenario.hosts):
                known[f"{name} {fact}"] = bool((state[mask] >> i) & 1)
        row = self._knowledge.after(action or "Sleep", succeeded, known)
        return ShownToRed(row, None, len(self._scenario.red_action_names))

    def chosen(self) -> tuple[str, None]:
        return _action_in(self.simulator.facts, self._scenario), None


class CybORGRed:
    """CybORG with a red agent that derives from CybORG's classes: see `CompiledRed`."""

    def __init__(self, env: Cage2Env, name: str) -> None:
        from workflow_rl.cage2.cyborg.red_cyborg import ShownRed

        self.env, self.name = env, name
        self.simulator = env._simulator
        self._shown = ShownRed(env)

    def shown(self, action: str = "") -> ShownToRed:
        if not action:
            self._shown.forget()
        seen = self._shown.after(action or "Sleep")
        row = np.array(seen["red_row"], np.uint8)
        return ShownToRed(row, seen["red_observation"], len(self.env.scenario.red_action_names))

    def chosen(self) -> tuple[str, None]:
        return _action_in(self.simulator.facts, self.env.scenario), None


WatchedRed: TypeAlias = CompiledRed | OwnRed | CybORGRed


def watched(red_agent: str, max_steps: int, scenario: Scenario) -> WatchedRed:
    """Return the simulator that plays the red agent of this name. Raises AttackerError."""
    in_python = CYBORG_REDS_IN_PYTHON if scenario.is_scenario2 else {}
    if red_agent in RED_AGENTS and red_agent not in in_python:
        return OwnRed(red_agent, max_steps, scenario)
    red = in_python.get(red_agent) or found(REDS.member(red_agent), scenario)
    if not acts_in_cyborg(red):
        return CompiledRed(red, max_steps, scenario)
    from workflow_rl.cage2.env.cage2_env import Cage2Env

    return CybORGRed(Cage2Env(red_agent, max_steps, scenario=scenario), red_agent)
