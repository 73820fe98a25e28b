"""Trained agents that take an order, and all that can be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.environments.environment import ENV, Environment, InvalidEnvironmentError
from workflow_rl.runs.saved_agent import load_player
from workflow_rl.runs.trust import require_trusted
from workflow_rl.workflows.ladder import FixCounts, Ladder
from workflow_rl.workflows.order import Order, Workflow
from workflow_rl.workflows.rules import WorkflowRules
from workflow_rl.workflows.scoring import must_obey, play_orders, rules_of

BESIDE = "beside"
OF_THE_ORDER = ("workflow", "order", "obedience", "penalty")
"""Arguments that do not change the task. Workflows are compared as they are read."""


@dataclass(frozen=True)
class Trained:
    """Agents of one task and workflow, with what each was trained on.

    rules: None if the environments take no order.
    """

    names: list[str]
    actors: list[Actor]
    environments: list[Environment]
    rules: WorkflowRules | None

    @classmethod
    def load(cls, runs: Sequence[Path], trust: bool = False) -> Trained:
        """Load agents of run folders, checkpoints or policy files.

        Raises CheckpointError, and InvalidEnvironmentError if their environments differ or if a run
        is given twice.
        """
        if len({run.resolve() for run in runs}) < len(runs):
            raise InvalidEnvironmentError(ENV, "one of the runs is given twice")
        loaded = [load_player(run, trust=trust) for run in runs]
        for player in loaded:
            require_trusted(player.environment)
        environment = loaded[0].environment
        try:
            rules = rules_of(environment)
        except InvalidEnvironmentError:
            rules = None
        for run, player in zip(runs[1:], loaded[1:], strict=True):
            _require_same_task(player.environment, environment, str(run), ENV)
            if player.environment.spaces() != environment.spaces():
                raise InvalidEnvironmentError(ENV, f"{run} has other spaces than {runs[0]}")
        names = [run.resolve().name for run in runs]
        environments = [player.environment for player in loaded]
        return cls(names, [player.policy for player in loaded], environments, rules)

    def require_beside(self, free: Trained) -> None:
        """Raise InvalidEnvironmentError unless `free` has an agent without an order for each of
        these, of the same task."""
        if len(free.names) != len(self.names):
            raise InvalidEnvironmentError(
                BESIDE, f"{len(free.names)} runs stand beside {len(self.names)}: give equally many"
            )
        _require_same_task(free.environment, self.environment, free.names[0], BESIDE)
        for name, environment in zip(free.names, free.environments, strict=True):
            if must_obey(environment):
                raise InvalidEnvironmentError(
                    BESIDE, f"{name} obeys an order: give a run with a penalty of 0"
                )

    @property
    def environment(self) -> Environment:
        """The environment of the first agent."""
        return self.environments[0]

    @property
    def workflow(self) -> Workflow:
        """The groups. Raises InvalidEnvironmentError if the environment takes no order."""
        return self._rules.workflow

    @property
    def _rules(self) -> WorkflowRules:
        return rules_of(self.environment) if self.rules is None else self.rules

    def ladder(
        self,
        orders: list[Order],
        episodes: int,
        seed: int = 0,
        free: Trained | None = None,
        quiet: bool = True,
    ) -> Ladder:
        """Play orders. free: agents without an order, to stand beside."""
        rules, numbers = self._rules, range(episodes)
        told = [(actor, order) for actor in self.actors for order in orders]
        played = [
            play_orders(actor, self.environment, rules, order, numbers, seed)
            for actor, order in tqdm(told, unit="order", disable=quiet or None)
        ]
        shape = len(self.actors), len(orders)
        totals = np.reshape([episodes_of.totals for episodes_of in played], (*shape, episodes))
        counted = np.transpose([episodes_of.fixes.over(0) for episodes_of in played])
        fixes = FixCounts(*counted.reshape(-1, *shape))
        without = free_fixes = None
        if free is not None:
            played_free = [
                play_orders(actor, free.environment, free.rules, None, numbers, seed)
                for actor in free.actors
            ]
            without = np.stack([episodes_of.totals for episodes_of in played_free])
            if free.rules is not None:
                free_fixes = FixCounts(
                    *np.transpose([episodes_of.fixes.over(0) for episodes_of in played_free])
                )
        return Ladder(self.workflow, orders, totals, fixes, without, free_fixes)


def _require_same_task(
    environment: Environment, other: Environment, name: str, argument: str
) -> None:
    """Raise InvalidEnvironmentError, which names `argument`, if two environments differ in more
    than how an order is told. A run of CAGE-2 without orders may stand beside one with orders.

    name: of the run whose environment is `one`.
    """
    both_cage2 = isinstance(environment, Cage2) and isinstance(other, Cage2)
    if environment.env_id != other.env_id and not (argument == BESIDE and both_cage2):
        raise InvalidEnvironmentError(
            argument,
            f"{name} is a run of {environment.env_id}, the first of RUNS of {other.env_id}",
        )
    # CAGE-2 is scored on one simulator, whichever a run was trained on.
    skipped = (*OF_THE_ORDER, "simulator") if both_cage2 else OF_THE_ORDER
    for arg in [arg for arg in {**other.args, **environment.args} if arg not in skipped]:
        found, wanted = (env.args.get(arg, "the default") for env in (environment, other))
        if found != wanted:
            raise InvalidEnvironmentError(
                argument, f"{name} has {arg} {found}, the first of RUNS has {wanted}"
            )
    if environment.env_id == other.env_id and _workflow_of(environment) != _workflow_of(other):
        raise InvalidEnvironmentError(
            argument, f"{name} has another workflow than the first of RUNS"
        )


def _workflow_of(environment: Environment) -> Workflow | None:
    try:
        return rules_of(environment).workflow
    except InvalidEnvironmentError:
        return None
