"""Search for the order with which trained agents have the best totals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from tqdm import tqdm

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.environments.environment import ENV, Environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.saved_agent import load_player
from workflow_rl.workflows.environment import OrderedCage2
from workflow_rl.workflows.order import Order, Workflow
from workflow_rl.workflows.ranking import Ranking
from workflow_rl.workflows.rules import WorkflowRules
from workflow_rl.workflows.scoring import play_order, rules_of

ORDERS = "orders"
OF_THE_ORDER = frozenset({"workflow", "order", "obedience", "penalty"})
"""Arguments that may differ between runs. `load` compares parsed workflows, and not their texts."""


@dataclass(frozen=True)
class OrderedAgents:
    """Agents that share a task and a workflow. environment: the environment of the first agent."""

    names: list[str]
    actors: list[Actor]
    environment: Environment
    rules: WorkflowRules

    @classmethod
    def load(cls, runs: Sequence[Path]) -> Self:
        """Load agents of run folders, checkpoints or policy files.

        Raises UserError for a wrong file. Raises ConfigError if the environments differ or take no
        order, or if a run is given twice.
        """
        if len({run.resolve() for run in runs}) < len(runs):
            raise ConfigError(ENV, "one of the runs is given twice")
        players = [load_player(run) for run in runs]
        environment = players[0].environment
        rules = rules_of(environment)
        for run, player in zip(runs[1:], players[1:], strict=True):
            _require_same_task(player.environment, environment, str(run))
            if rules_of(player.environment).workflow != rules.workflow:
                raise ConfigError(ENV, f"{run} has another workflow than the first of RUNS")
            if player.environment.spaces() != environment.spaces():
                raise ConfigError(ENV, f"{run} has other spaces than {runs[0]}")
        names = [run.resolve().name for run in runs]
        return cls(names, [player.policy for player in players], environment, rules)

    def orders(self, n_orders: int | None, seed: int) -> list[Order]:
        """Return all orders, or up to `n_orders` random orders.

        Raises ConfigError if there is only one order, or if `n_orders` is None and there are too
        many orders.
        """
        workflow: Workflow = self.rules.workflow
        if n_orders is not None:
            orders = workflow.some_orders(n_orders, np.random.default_rng(seed))
        else:
            try:
                orders = workflow.orders()
            except ValueError as error:
                raise ConfigError(
                    ORDERS, f"{error}, too many to score them all: say how many, such as 30"
                ) from None
        if len(orders) == 1:
            name = workflow.name_of(orders[0])
            raise ConfigError(
                ENV, f"the constraints leave one order, {name}: there is nothing to search"
            )
        return orders

    def ranking(
        self, orders: list[Order], episodes: int, seed: int = 0, quiet: bool = True
    ) -> Ranking:
        """Play all orders in the same episodes, and rank them."""
        shape = len(self.actors), len(orders)
        totals = np.zeros((*shape, episodes))
        n_decided = np.zeros(shape, np.int64)
        n_kept = np.zeros(shape, np.int64)
        for agent, place in tqdm(list(np.ndindex(shape)), unit="order", disable=quiet or None):
            played = play_order(
                self.actors[agent], self.environment, self.rules, orders[place], episodes, seed
            )
            totals[agent, place] = played.totals
            n_decided[agent, place] = played.n_decided
            n_kept[agent, place] = played.n_kept
        return Ranking(self.rules.workflow, orders, totals, n_decided, n_kept)


def _require_same_task(environment: Environment, first: Environment, name: str) -> None:
    """Raise ConfigError if two environments differ in other arguments than OF_THE_ORDER.

    name: the run of `environment`. first: the environment of the first run.
    """
    if environment.env_id != first.env_id:
        raise ConfigError(
            ENV, f"{name} is a run of {environment.env_id}, the first of RUNS of {first.env_id}"
        )
    skipped = OF_THE_ORDER
    if isinstance(environment, OrderedCage2):
        skipped |= {"simulator"}  # All runs are scored in the compiled simulator.
    for argument in {**first.args, **environment.args}:
        given = environment.args.get(argument, "the default")
        wanted = first.args.get(argument, "the default")
        if argument not in skipped and given != wanted:
            raise ConfigError(ENV, f"{name} has {argument} {given}, the first of RUNS has {wanted}")
