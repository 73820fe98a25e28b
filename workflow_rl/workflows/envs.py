"""Wrap a Gymnasium environment, so that the environment's agent keeps to an order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.environments.action_mask import MASK as ACTION_MASK
from workflow_rl.environments.action_mask import (
    PRIVILEGED,
    mask_in,
    mask_reader,
    without_mask,
    without_privileged,
)
from workflow_rl.environments.flat_env import flat_space, flattener
from workflow_rl.errors import ObservationError
from workflow_rl.workflows.order import MOST_GROUPS, Bools, Numbers, Workflow, ranks_of
from workflow_rl.workflows.rules import (
    MASK,
    PENALTY,
    check_obedience,
    fixes_made,
    n_order_bits,
    order_of_episode,
    ordered_obs,
)


@dataclass
class Milestones:
    """The `WorkflowRules` of a user's own environment: see `OrderedEnv`."""

    workflow: Workflow
    n_own: int
    needs_of_one: Callable[[NDArray[Any]], Any]
    fixes_of_one: Callable[[NDArray[Any]], Any]

    def needs(self, obs: NDArray[Any]) -> Bools:
        """Return whether the agent still has to reach each milestone, bool [M, G]."""
        return np.array([self.needs_of_one(row) for row in obs], np.bool_)

    def fixes(self, obs: NDArray[Any]) -> Numbers:
        """Return the milestone that each action would reach now, int64 [M, A], or NOBODY."""
        return np.array([self.fixes_of_one(row) for row in obs], np.int64)


def _workflow_of(names: tuple[str, ...]) -> Workflow:
    """Return the workflow whose groups are the milestones. Raises ValueError for invalid names."""
    if not 2 <= len(names) <= MOST_GROUPS or len(set(names)) < len(names):
        raise ValueError(f"milestones={names}: 2 to {MOST_GROUPS} different ones are needed")
    for name in names:
        if not name or name != name.strip() or "," in name:
            raise ValueError(f"milestones: the name {name!r} has a comma, or spaces around it")
    return Workflow(names, tuple((name,) for name in names))


class OrderedEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """An environment whose agent reaches milestones in a given order.

    An observation is flat: the environment's observation, then the order's bits. With obedience
    "penalty", a bit for each milestone follows. Only the bit of the next milestone is 1. With
    obedience "mask", `info["action_mask"]` forbids actions that would reach a milestone too early,
    and actions that the environment's own mask forbids. `step` and `reset` raise ObservationError
    if the mask forbids all actions.

    Args:
        env: the environment, whose actions are Discrete.
        milestones: the names of the G milestones.
        needs: takes a flat observation [D]. Returns G booleans: whether the agent still has to
            reach each milestone.
        fixes: takes a flat observation [D]. Returns, for each of the A actions, the index of the
            milestone that the action would reach now, or -1.
        order: names such as "a,b,c". If this is "", the seed of each episode draws an order.
        obedience: "mask", or "penalty", with which the agent may break the order.
        penalty: what a milestone that the agent reaches too early costs, as reward.

    Raises:
        ValueError: an argument is wrong.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        milestones: Sequence[str],
        needs: Callable[[NDArray[Any]], Any],
        fixes: Callable[[NDArray[Any]], Any],
        order: str = "",
        obedience: str = MASK,
        penalty: float = 0.0,
    ) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(f"the actions are {env.action_space}: Discrete ones are needed")
        check_obedience(obedience, penalty)
        workflow = _workflow_of(tuple(milestones))
        self.obedience = obedience
        self.penalty = penalty
        shown = without_mask(env.observation_space)
        if without_privileged(shown) is not shown:
            raise ValueError(f"the observations have {PRIVILEGED}: leave it out")
        self._flatten = flattener(shown)
        self._read_mask = mask_reader(env.action_space)
        flat = flat_space(shown)
        self.rules = Milestones(workflow, flat.low.size, needs, fixes)
        self.set_order(order)
        n_bits = n_order_bits(workflow, obedience)
        self.observation_space = spaces.Box(
            np.append(flat.low, np.zeros(n_bits)).astype(flat.dtype),
            np.append(flat.high, np.ones(n_bits)).astype(flat.dtype),
            dtype=flat.dtype.type,
        )

    def set_order(self, order: str) -> None:
        """Set the order of the next episodes, as in the constructor. Raises ValueError."""
        self._order = self.rules.workflow.order_named(order) if order else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        drawn_by = int(self.np_random.integers(2**31)) if seed is None else seed
        order = order_of_episode(self.rules.workflow, self._order, drawn_by)
        self._ranks = ranks_of([order])
        return self._shown(obs, info, False)

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        number = np.array([action - self.env.action_space.start])  # type: ignore[attr-defined]
        fixes = fixes_made(self.rules, self._obs, self._ranks, number)
        obs, reward, terminated, truncated, info = self.env.step(action)
        cost = self.penalty if fixes.broken[0] else 0.0
        row, info = self._shown(obs, info, terminated or truncated)
        return row, float(reward) - cost, terminated, truncated, info

    def _shown(
        self, obs: Any, info: dict[str, Any], ended: bool
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        self._obs = self._flatten(obs)[None]
        row = ordered_obs(self.rules, self._obs, self._ranks, self.obedience)[0]
        size = self.observation_space.shape[0]  # type: ignore[index]
        mask = mask_in(obs, info)
        if self.obedience == MASK:
            possible = row[size:] > 0
            # After an episode's end, the environment's mask may forbid all actions.
            if mask is not None and not ended:
                possible &= self._read_mask(mask)
                if not possible.any():
                    raise ObservationError(
                        "the environment's action mask leaves only actions that break the order: "
                        f"allow another one, or choose obedience {PENALTY}"
                    )
            info = {**info, ACTION_MASK: possible.astype(np.int8)}
        elif mask is not None:
            info = {**info, ACTION_MASK: mask}
        return row[:size], info
