"""Rewards and ends as Python numbers, costs in infos, and a ParallelEnv that plays an AECEnv.

Agents of PettingZoo's AECEnv act in turns. Interpreters of Python 3.8 import this file, too.

Costs of a step: `info["cost"]` is a number, which is Safety-Gymnasium's convention, and
`info["costs"]` a mapping of names to numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.errors import ObservationError

if TYPE_CHECKING:  # Old versions of NumPy have no NDArray.
    from numpy.typing import NDArray

_NUMBERS, _FLAGS = (float, int, np.floating, np.integer, np.bool_), (bool, np.bool_)


def as_reward(value: Any, *what: object) -> float:
    """Return a number of any type as a float, because a sum in its own type could overflow.

    what: the first words of the ObservationError for any other value.
    """
    try:
        if isinstance(value, _NUMBERS):
            return float(value)
        if _is_number(value):
            return float(np.asarray(value))
        wanted = "a number"
    except OverflowError:
        wanted = "a number that float64 holds"
    raise ObservationError(f"{' '.join(map(str, what))} is {value!r:.80}, not {wanted}")


def as_flag(value: Any, *what: object) -> bool:
    """Return True, False, 1 or 0 of any type as a bool. what: see `as_reward`."""
    if isinstance(value, _FLAGS) or (_is_number(value) and value in (0, 1)):
        return bool(value)
    raise ObservationError(f"{' '.join(map(str, what))} is {value!r:.80}, not True or False")


def _is_number(value: Any) -> bool:
    array = np.asanyarray(value)
    return array.dtype.kind in "biuf" and not (array.ndim or np.ma.is_masked(array))


def parallel(env: Any) -> Any:
    """Return an environment with the interface of ParallelEnv.

    If all agents of an AECEnv act before anything changes, its metadata has `is_parallelizable`.
    PettingZoo's conversion then lets all agents act at once. In other AECEnvs, a turn is a step.
    """
    if not hasattr(env, "agent_iter"):
        return env
    if (getattr(env, "metadata", None) or {}).get("is_parallelizable"):
        from pettingzoo.utils import aec_to_parallel

        converted = aec_to_parallel(env)
        if hasattr(converted, "aec_env"):  # The conversion adds rewards in their own type.
            converted.aec_env = _Paying(converted.aec_env)
        return converted
    return Turns(env)


class _Paying:
    """An AECEnv whose rewards are floats."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    @property
    def rewards(self) -> dict[Any, float]:
        paid = self.env.rewards.items()
        return {agent: as_reward(of, "the reward of", agent) for agent, of in paid}


class Turns(_Paying):
    """An AECEnv as a ParallelEnv. A turn is a step, and agents that wait for their turn are busy.

    The rewards of a step are all rewards of the turn, also of agents that wait.
    """

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.env.reset(seed=seed, options=options)
        return self._shown({})

    def step(self, actions: Mapping[Any, Any]) -> tuple[Any, ...]:
        env = self.env
        env.step(actions[env.agent_selection])
        given = [{**of} for of in (self.rewards, env.terminations, env.truncations)]
        # Observed now, because agents that have ended are removed below.
        last = {agent: env.observe(agent) for agent, is_cut in given[2].items() if is_cut}
        for _ in given[1]:
            if env.agents and self._has_ended(env.agent_selection):
                env.step(None)
        obs, infos = self._shown(last)
        return obs, *given, infos

    def _has_ended(self, agent: Any) -> bool:
        both = self.env.terminations, self.env.truncations
        return any(as_flag(ends.get(agent, False), "the end of", agent) for ends in both)

    def _shown(self, last: Mapping[Any, Any]) -> tuple[Any, Any]:
        env = self.env
        self.agents = [agent for agent in env.agents if not self._has_ended(agent)]
        if self.agents and env.agent_selection not in self.agents:
            raise ObservationError(
                f"it is the turn of {env.agent_selection!r:.80}, who has ended or is not in "
                "`agents`"
            )
        obs = {**last, **{agent: env.observe(agent) for agent in self.agents}}
        return obs, {
            agent: {**env.infos[agent], "busy_steps": int(agent != env.agent_selection)}
            for agent in self.agents
        }


COST, COSTS = "cost", "costs"


def costs_in(info: Any) -> dict[str, Any]:
    """Return the costs in the info of a step, by name, unchanged. An `info["costs"]` that is not a
    mapping from names is ignored, because the environment may use the key for other values."""
    if not isinstance(info, Mapping) or (COST not in info and COSTS not in info):
        return {}
    costs = info.get(COSTS)
    is_named = isinstance(costs, Mapping) and all(map(_is_name, costs))
    found = {COST: info.get(COST), **(dict(costs) if is_named and costs else {})}
    return {name: value for name, value in found.items() if value is not None}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def of_a_team(infos: Any) -> dict[str, Any]:
    """Return the costs in the infos of agents: the sum over the agents for each name. A value that
    is not a number replaces the sum, so that the reader of the sum raises an error."""
    totals: dict[str, Any] = {}
    for info in infos.values():
        for name, value in costs_in(info).items():
            both = totals.get(name, 0.0), value
            wrong = [part for part in both if not _is_cost(part)]
            totals[name] = wrong[0] if wrong else both[0] + as_reward(value)
    return totals


def _is_cost(value: Any) -> bool:
    try:
        as_reward(value)
    except ObservationError:
        return False
    return True


def names_in(info: Any) -> tuple[str, ...]:
    """Return the names of the costs in the info of a step that are numbers."""
    return tuple(sorted(name for name, value in costs_in(info).items() if _is_cost(value)))


def read_costs(info: Any, names: Sequence[str], step: int) -> list[float]:
    """Return the costs of a step in the order of `names`. Raise ObservationError if a cost is
    missing, is not a finite number, or has another name."""
    found = costs_in(info)
    if further := sorted(found.keys() - {*names}):
        raise ObservationError(
            f"step {step} has the cost {further[0]!r:.80}, which the environment's first step did "
            f"not have: {_wanted(further[0])}"
        )
    costs = []
    for name in names:
        if name not in found:
            raise ObservationError(f"step {step} lacks the cost {name!r}: {_wanted(name)}")
        costs.append(as_reward(found[name], "the cost", repr(name), "of step", step))
        if not math.isfinite(costs[-1]):
            raise ObservationError(
                f"the cost {name!r} of step {step} is {costs[-1]}, not a finite number"
            )
    return costs


def _wanted(name: str) -> str:
    place = f"info[{COST!r}]" if name == COST else f"info[{COSTS!r}][{name!r:.80}]"
    return f"give {place} with every step, 0 where there is no cost"


def finite_costs(costs: NDArray[Any], names: Iterable[str]) -> NDArray[np.float64]:
    """Return costs [M, C] as float64. Raise ObservationError for a cost that is not finite."""
    numbers = costs.astype(np.float64)
    for name, column in zip(names, numbers.T, strict=True):
        if not np.isfinite(column).all():
            wrong = column[~np.isfinite(column)][0]
            raise ObservationError(f"the cost {name!r} of a step is {wrong}: give a finite number")
    return numbers
