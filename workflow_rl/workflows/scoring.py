"""Score an agent with an order. All orders have the same episodes, which have no other use.

On CAGE-2, an episode is one game against each of the three red agents. Its total is the sum of the
returns of each game's first 30, 50 and 100 steps, as in the challenge's nine cells. For agents that
were trained against one red agent, and in all other environments, the total is one game's return.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage.playing import play
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import ENV, Environment
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.making import required_env
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation.intervals import FloatArray
from workflow_rl.workflows.environment import OrderedCage2
from workflow_rl.workflows.envs import OrderedEnv
from workflow_rl.workflows.order import Order, ranks_of
from workflow_rl.workflows.rules import WorkflowRules, fixes_made

MOST_TOGETHER = 500
MOST_EPISODES = 1_000_000


class OrderEpisodes(NamedTuple):
    """The results of E episodes with one order. totals: float64 [E]. n_decided: the number of fixes
    while several groups needed fixing. n_kept: how many of these fixes kept to the order."""

    totals: FloatArray
    n_decided: int
    n_kept: int


def rules_of(environment: Environment) -> WorkflowRules:
    """Return the rules of an environment. Raises ConfigError if the environment takes no order."""
    if isinstance(environment, OrderedCage2):
        return environment.rules
    if isinstance(environment, GymnasiumEnvironment):
        ordered = _ordered_env(required_env(environment))
        if ordered is not None:
            return ordered.rules
    raise ConfigError(ENV, f"{environment.env_id} takes no order")


def _ordered_env(env: Env) -> OrderedEnv | None:
    """Return the OrderedEnv among an environment and the environments inside it, or None."""
    while not isinstance(env, OrderedEnv) and env is not env.unwrapped:
        env = env.env  # type: ignore[attr-defined]
    return env if isinstance(env, OrderedEnv) else None


@dataclasses.dataclass(frozen=True)
class WithOrder(GymnasiumEnvironment):
    """A user's environment with a fixed order, in which no fix costs a penalty.

    `make_env` sets the order in each env, because the user's function may take no order.
    """

    order: str = ""

    def make_env(self, **options: Any) -> Env:
        env = super().make_env(**options)
        ordered = _ordered_env(env)
        assert ordered is not None
        ordered.set_order(self.order)
        ordered.penalty = 0.0
        return env


def _with_order(environment: Environment, order: str) -> Environment:
    """Return the environment with a fixed order, in which no fix costs a penalty.

    environment: an environment for which `rules_of` raises no error.
    """
    if isinstance(environment, OrderedCage2):
        return dataclasses.replace(environment.scored(), order=order)
    fields = dataclasses.fields(GymnasiumEnvironment)
    arguments = {field.name: getattr(environment, field.name) for field in fields}
    return WithOrder(**arguments, order=order)


def play_order(
    actor: Actor,
    environment: Environment,
    rules: WorkflowRules,
    order: Order,
    episodes: int,
    seed: int = 0,
) -> OrderEpisodes:
    """Play episodes in an order, and return their results.

    Args:
        environment: the environment in which the actor was trained.
        rules: the environment's rules, see `rules_of`.
        order: the order of all episodes.
        episodes: the number of episodes, at most a million.
        seed: with one seed, all orders have the same random events.
    """
    assert episodes <= MOST_EPISODES
    environment = _with_order(environment, rules.workflow.name_of(order))
    ranks = ranks_of([order])
    totals = np.zeros(episodes)
    n_decided = 0
    n_kept = 0
    for number, game in enumerate(_games(actor, environment, episodes, seed)):
        totals[number % episodes] += _total(game, environment)
        fixes = fixes_made(rules, game.obs[:, : rules.n_own], ranks, game.action)
        n_decided += int(fixes.decided.sum())
        n_kept += int((fixes.decided & ~fixes.broken).sum())
    return OrderEpisodes(totals, n_decided, n_kept)


def _games(
    actor: Actor, environment: Environment, episodes: int, seed: int
) -> Iterator[Trajectory]:
    """Yield the games of all episodes. Each episode has one game against each variant."""
    variants: Sequence[str] = environment.variants or ("",)
    if _is_scored_in_cells(environment):
        variants = RED_AGENTS
    for place, variant in enumerate(variants):
        first = place * MOST_EPISODES
        specs = [
            episode_spec(seed, number, (variant,), SeedStream.WORKFLOWS)
            for number in range(first, first + episodes)
        ]
        yield from play(environment.make_envs, actor, specs, MOST_TOGETHER)


def _is_scored_in_cells(environment: Environment) -> TypeGuard[OrderedCage2]:
    """Return whether the environment is CAGE-2 with several red agents."""
    return isinstance(environment, OrderedCage2) and len(environment.variants) > 1


def _total(game: Trajectory, environment: Environment) -> float:
    """Return what a game adds to its episode's total."""
    if not _is_scored_in_cells(environment) or environment.max_steps != max(HORIZONS):
        return game.episode_return
    n_opening = len(environment.opening)  # The rewards of these steps are in the first reward.
    if n_opening >= min(HORIZONS):
        return game.episode_return
    returns = [game.reward[: horizon - n_opening].sum() for horizon in HORIZONS]
    return float(sum(returns))
