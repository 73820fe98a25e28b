"""How well an agent plays an order: on the same episodes for all orders, which serve nothing else.

An episode's total on CAGE-2 is what it adds to the nine cells of the challenge: the first 30, 50
and 100 steps of a game against each of the three red agents. Of agents that were trained against
one red agent, and elsewhere, it is the return.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.making import required_env
from workflow_rl.workflows.environment import OrderedCage2
from workflow_rl.workflows.envs import OrderedEnv
from workflow_rl.workflows.ladder import FixCounts
from workflow_rl.workflows.order import Order
from workflow_rl.workflows.rules import MASK, WorkflowRules, fixes_made

MOST_TOGETHER = 500
MOST_EPISODES = 1_000_000
FloatArray = NDArray[np.float64]


class OrderEpisodes(NamedTuple):
    """Of E episodes of an order: their totals, float64 [E], and their fixes."""

    totals: FloatArray
    fixes: FixCounts


def rules_of(environment: Environment) -> WorkflowRules:
    """Return the rules of an environment. Raises InvalidEnvironmentError if it takes no order."""
    if isinstance(environment, OrderedCage2):
        return environment.rules
    if isinstance(environment, GymnasiumEnvironment):
        env = _ordered(required_env(environment))
        if env is not None:
            return env.rules
    raise InvalidEnvironmentError("env", f"{environment.env_id} takes no order")


def must_obey(environment: Environment) -> bool:
    """Return whether agents cannot break an order in an environment, or pay for breaking one."""
    rules: OrderedCage2 | OrderedEnv | None = None
    if isinstance(environment, OrderedCage2):
        rules = environment
    elif isinstance(environment, GymnasiumEnvironment):
        rules = _ordered(required_env(environment))
    return rules is not None and (rules.obedience == MASK or rules.penalty > 0)


def _ordered(env: Env) -> OrderedEnv | None:
    """Return the OrderedEnv among an environment and those that it wraps."""
    while not isinstance(env, OrderedEnv) and env is not env.unwrapped:
        env = env.env  # type: ignore[attr-defined]
    return env if isinstance(env, OrderedEnv) else None


@dataclasses.dataclass(frozen=True)
class _Told(GymnasiumEnvironment):
    """An environment that is told an order, and where no fix costs anything.

    Its factory may know neither orders nor costs. order: "" draws one for each episode.
    """

    order: str = ""

    def make_env(self, **options: Any) -> Env:
        made = super().make_env(**options)
        env = _ordered(made)
        if env is not None:
            env.tell(self.order)
            env.penalty = 0.0
        return made


def told(environment: Environment, order: str) -> Environment:
    """Return the environment with an order, where no fix costs anything: scores are true rewards.

    order: "" draws one for each episode. Raises InvalidEnvironmentError for an environment that is
    scored in another way, such as a team's.
    """
    if isinstance(environment, OrderedCage2):
        return dataclasses.replace(environment.scored(), order=order)
    if isinstance(environment, Cage2):
        return environment.scored()
    if isinstance(environment, GymnasiumEnvironment):
        fields = [field.name for field in dataclasses.fields(environment)]
        return _Told(**{name: getattr(environment, name) for name in fields} | {"order": order})
    raise InvalidEnvironmentError("env", f"{environment.env_id} cannot be scored here")


def play_orders(
    actor: Actor,
    environment: Environment,
    rules: WorkflowRules | None,
    order: Order | None,
    numbers: range,
    seed: int = 0,
) -> OrderEpisodes:
    """Play the episodes of these numbers in an order, and return what they came to.

    Args:
        actor: acts in the environment.
        environment: what the actor was trained on.
        rules: of the environment; None if it takes no order. Then no fixes are counted.
        order: None: each episode draws one, and fixes are counted by this order.
        numbers: of the episodes, each below a million.
        seed: the same seed and number give the same chances, whatever the order.
    """
    assert numbers.stop <= MOST_EPISODES
    name = "" if rules is None or order is None else rules.workflow.name_of(order)
    environment = told(environment, name)
    totals = np.zeros(len(numbers))
    counts = np.zeros((4, len(numbers)), np.int64)
    for game in _games(actor, environment, numbers, seed):
        place = game.episode % MOST_EPISODES - numbers.start
        totals[place] += _total(game, environment)
        if rules is not None:
            obs, ranks = _parts(game.obs, rules)
            _, ruled, kept, decided = fixes_made(rules, obs, ranks, game.action)
            counts[:, place] += [game.sum() for game in (ruled, kept, decided, decided & kept)]
    return OrderEpisodes(totals, FixCounts(np.ones(len(numbers), np.int64), *counts))


def _games(
    actor: Actor, environment: Environment, numbers: range, seed: int
) -> Iterator[Trajectory]:
    for place, variant in enumerate(_variants(environment)):
        specs = [
            episode_spec(seed, place * MOST_EPISODES + n, (variant,), SeedStream.WORKFLOWS)
            for n in numbers
        ]
        envs = environment.make_envs(min(MOST_TOGETHER, len(specs)))
        try:
            for ended in play_episodes(envs, actor, specs):
                yield from ended
        finally:
            envs.close()


def _variants(environment: Environment) -> Sequence[str]:
    return RED_AGENTS if _has_cells(environment) else environment.variants or ("",)


def _has_cells(environment: Environment) -> TypeGuard[Cage2]:
    """Return whether agents of an environment are for all red agents of CAGE-2."""
    return isinstance(environment, Cage2) and len(environment.variants) > 1


def _total(played: Trajectory, environment: Environment) -> float:
    if not _has_cells(environment) or environment.max_steps != max(HORIZONS):
        return played.episode_return
    if len(environment.opening) >= min(HORIZONS):
        return played.episode_return
    ends = [n - len(environment.opening) for n in HORIZONS]
    return float(sum(played.reward[:end].sum() for end in ends))


def _parts(obs: NDArray[Any], rules: WorkflowRules) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return what the environment itself showed in an episode, and the episode's order as ranks
    [T, G]."""
    n_groups, n_own = len(rules.workflow.groups), rules.n_own
    first, second = np.triu_indices(n_groups, 1)
    bits = obs[0, n_own : n_own + rules.workflow.n_pairs] > 0
    ranks = np.bincount(np.where(bits, second, first), minlength=n_groups)
    return obs[:, :n_own], np.broadcast_to(ranks, (len(obs), n_groups))
