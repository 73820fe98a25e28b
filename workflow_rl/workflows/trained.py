"""Trained agents that take an order, and all that can be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents.policies.numpy_policy import Actor
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError
from workflow_rl.runs.saved_agent import load_player
from workflow_rl.workflows.ladder import Ladder
from workflow_rl.workflows.order import Order, Workflow, classes
from workflow_rl.workflows.rules import Rules
from workflow_rl.workflows.scoring import Fix, play, replayed, rules_of, states_met
from workflow_rl.workflows.search import Pull

EPISODES_OF_CLASSES = 500


@dataclass(frozen=True)
class Trained:
    """Agents of one environment and workflow. rules: None if the environment takes no order."""

    names: list[str]
    actors: list[Actor]
    environment: Environment
    rules: Rules | None

    @classmethod
    def load(cls, runs: Sequence[Path], trust: bool = False) -> Trained:
        """Load agents of run folders, checkpoints or policy files.

        Raises CheckpointError, and InvalidEnvironmentError if their workflows differ.
        """
        loaded = [load_player(run, trust=trust) for run in runs]
        environment = loaded[0].environment
        try:
            rules = rules_of(environment)
        except InvalidEnvironmentError:
            rules = None
        for one in loaded[1:]:
            if one.environment.spaces() != environment.spaces() or (
                rules is not None and rules_of(one.environment).workflow != rules.workflow
            ):
                raise InvalidEnvironmentError("env", "the runs' workflows or spaces differ")
        names = [run.resolve().name for run in runs]
        return cls(names, [one.policy for one in loaded], environment, rules)

    @property
    def workflow(self) -> Workflow:
        """The groups. Raises InvalidEnvironmentError if the environment takes no order."""
        return self._rules.workflow

    @property
    def _rules(self) -> Rules:
        return rules_of(self.environment) if self.rules is None else self.rules

    def ladder(
        self, episodes: int, seed: int = 0, free: Trained | None = None, quiet: bool = True
    ) -> Ladder:
        """Play all orders. free: agents without an order, to stand beside."""
        orders = self.workflow.orders()
        shape = len(self.actors), len(orders)
        totals = np.zeros((*shape, episodes))
        fixes, adherence = np.zeros(shape), np.zeros(shape)
        rules, numbers = self._rules, range(episodes)
        for place, order in enumerate(tqdm(orders, unit="order", disable=quiet or None)):
            for n, actor in enumerate(self.actors):
                played = play(actor, self.environment, rules, order, numbers, seed)
                totals[n, place], fixes[n, place] = played.totals, played.ruled.mean()
                adherence[n, place] = played.adherence
        without = free_fixes = None
        if free is not None:
            played_free = [
                play(actor, free.environment, free.rules, None, numbers, seed)
                for actor in free.actors
            ]
            without = np.stack([one.totals for one in played_free])
            free_fixes = np.array([one.ruled.mean() for one in played_free])
        return Ladder(self.workflow, orders, totals, fixes, adherence, without, free_fixes)

    def puller(self, seed: int = 0) -> Pull:
        """Return what a search plays: the mean of the agents' totals."""

        def pull(order: Order, numbers: range) -> NDArray[np.float64]:
            played = [
                play(actor, self.environment, self._rules, order, numbers, seed).totals
                for actor in self.actors
            ]
            mean: NDArray[np.float64] = np.mean(played, axis=0)
            return mean

        return pull

    def replay(self, order: Order, seed: int = 0) -> list[tuple[str, float, list[Fix]]]:
        """Return the fixes of the first agent in the first episode."""
        return replayed(self.actors[0], self.environment, self._rules, order, 0, seed)

    def merged(self, seed: int = 0) -> list[str]:
        """Return a sentence for each variant, about the orders that a random player could not tell
        apart there."""
        said = []
        orders = self.workflow.orders()
        for variant in [one for one in self.environment.variants or ("",) if one != "SleepAgent"]:
            met = states_met(self.environment, self._rules, variant, EPISODES_OF_CLASSES, seed)
            n_classes = len(classes(orders, met))
            against = f" against {variant}" if variant else ""
            said.append(
                f"{len(orders)} orders are {n_classes}{against}: a random player met {len(met)} "
                f"states of need in {EPISODES_OF_CLASSES} episodes."
            )
        return list(dict.fromkeys(said))
