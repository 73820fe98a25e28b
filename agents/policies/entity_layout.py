"""Which numbers of an observation describe which entity, and what the actions do to it. No torch.

An entity is one of several things of one kind, such as the hosts of a network. An environment
declares its entities in an attribute `entities`, a mapping of these tables:

features: int [N, F]. The columns of the flat observation that describe each of N entities by F
    numbers, in the same order for all entities; -1 stands for a number that is always 0.
actions: int [A, 2]. What each action is: the number of a verb, and the entity that the verb is done
    to; or the number of an action that is done to no entity, and -1. The options of MultiDiscrete
    follow one another.
present: int [N], optional. The columns that are above 0 where an entity exists.
traits: float [N, C], optional. Numbers that never change and tell the entities apart.

All other columns of the observation describe the whole.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.network import MOST

Table = NDArray[np.int64]

TABLES = ("features", "actions", "present", "traits")


class EntityLayout:
    """The tables that an environment declares, checked, for observations of `n_inputs` numbers.

    A layout without actions is that of a critic. Raises ValueError for tables that cannot be.
    """

    def __init__(self, n_inputs: int, tables: Mapping[str, Any]) -> None:
        for name in tables:
            if name not in TABLES:
                raise ValueError(f"entities: {name!r:.50} is none of {', '.join(TABLES)}")
        if type(n_inputs) is not int or not 1 <= n_inputs <= MOST:
            raise ValueError(f"entities: {n_inputs!r:.50} is no number of inputs")
        self.n_inputs = n_inputs
        self.features = _table(tables, "features", -1, n_inputs)
        self.n_entities = len(self.features)
        if self.features.ndim != 2 or not self.n_entities:
            raise ValueError("entities: features has no row for each entity")
        self.actions = _table(tables, "actions", -1, MOST).reshape(-1, 2)
        if (self.actions[:, 0] < 0).any() or (self.actions[:, 1] >= self.n_entities).any():
            raise ValueError("entities: actions names a verb or an entity that is none")
        self.present = _table(tables, "present", 0, n_inputs)
        if self.present.shape not in ((0,), (self.n_entities,)):
            raise ValueError(f"entities: present has not {self.n_entities} numbers")
        traits = np.asarray(tables.get("traits", ()))
        if not traits.size:
            traits = np.zeros((self.n_entities, 0))
        # NaN is not less, either.
        holds = traits.dtype.kind in "biuf" and (np.abs(traits) < np.finfo(np.float32).max).all()
        if traits.ndim != 2 or len(traits) != self.n_entities or not holds:
            raise ValueError(f"entities: traits has not {self.n_entities} rows of numbers")
        self.traits = traits.astype(np.float32)

    @property
    def n_outputs(self) -> int:
        """`A`, or 1 for the value."""
        return len(self.actions) or 1

    @property
    def _has_entity(self) -> NDArray[np.bool_]:
        return self.actions[:, 1] >= 0

    @functools.cached_property
    def n_verbs(self) -> int:
        """`V`, the verbs that are done to entities."""
        return int(self.actions[self._has_entity, 0].max(initial=-1)) + 1

    @functools.cached_property
    def n_plain(self) -> int:
        """Outputs that belong to no entity: actions, or the value."""
        if not len(self.actions):
            return 1
        return int(self.actions[~self._has_entity, 0].max(initial=-1)) + 1

    @functools.cached_property
    def whole(self) -> Table:
        """The columns [G] that describe the whole."""
        return np.setdiff1d(np.arange(self.n_inputs), [*self.features.ravel(), *self.present])

    @functools.cached_property
    def places(self) -> Table:
        """The place of each output [A] among the scores [N * V] and the outputs after them."""
        if not len(self.actions):
            return np.zeros(1, np.int64)
        number, entity = self.actions.T
        after = self.n_entities * self.n_verbs + number
        return np.where(self._has_entity, entity * self.n_verbs + number, after)

    @functools.cached_property
    def alike(self) -> Table:
        """A number for each column [n_inputs], the same for a feature of all entities; -1 for the
        columns that say which entities exist."""
        alike = np.full(self.n_inputs, -1)
        n_features = self.features.shape[1]
        alike[self.whole] = n_features + np.arange(len(self.whole))
        for feature, columns in enumerate(self.features.T):
            alike[columns[columns >= 0]] = feature
        alike[self.present] = -1
        return alike

    @property
    def counts(self) -> dict[str, int]:
        """The numbers in which two layouts must agree if the same weights are to play both."""
        return {
            "features": self.features.shape[1],
            "traits": self.traits.shape[1],
            "numbers that describe the whole": len(self.whole),
            "verbs": self.n_verbs,
            "actions on no entity": self.n_plain,
        }

    def demand_like(self, other: EntityLayout) -> None:
        """Raise ValueError if the same weights cannot play this layout and another one."""
        counts, others = self.counts, other.counts
        for name, count in counts.items():
            if count != others[name]:
                raise ValueError(
                    f"it learned with {name}: {count}, and the environment has {others[name]}"
                )

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as files keep them."""
        names = ("features", "actions", "present", "traits")
        return {"n_inputs": self.n_inputs, **{name: getattr(self, name).tolist() for name in names}}


def layout_of(values: Any) -> EntityLayout:
    """Return the layout that `to_plain` described. Raises ValueError."""
    if not isinstance(values, Mapping):
        raise ValueError(f"entities: {values!r:.50} are no tables")
    return EntityLayout(
        values.get("n_inputs", 0),
        {name: table for name, table in values.items() if name != "n_inputs"},
    )


def are_tables(values: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether values are meant as tables of entities, whatever they hold."""
    return isinstance(values, Mapping) and bool(values.keys() & set(TABLES))


def declared(tables: Mapping[str, Any], n_inputs: int, n_outputs: int) -> EntityLayout:
    """Return the layout of an environment that declares `tables`. Raises ValueError.

    n_inputs: numbers in an observation, without its mask. n_outputs: of the actor's network.
    """
    layout = EntityLayout(n_inputs, tables)
    if len(layout.actions) != n_outputs:
        raise ValueError(f"entities: actions has {len(layout.actions)} rows, not {n_outputs}")
    return layout


def carried(numbers: NDArray[Any], before: EntityLayout, after: EntityLayout) -> NDArray[Any]:
    """Return numbers of columns, which are equal for columns that are alike, for another layout.

    Raises ValueError if the other layout has columns that are like none of this one.
    """
    of = dict(zip(before.alike.tolist(), numbers.tolist(), strict=True))
    if not of.keys() >= set(after.alike.tolist()):
        raise ValueError("its entities are described by other numbers than those it learned on")
    return np.array([of[group] for group in after.alike.tolist()], numbers.dtype)


def _table(tables: Mapping[str, Any], name: str, least: int, end: int) -> Table:
    """Return a table of integers from `least` to `end` - 1. Raises ValueError for another."""
    table = np.asarray(tables.get(name, ()))
    if table.size and table.dtype.kind not in "iu":
        raise ValueError(f"entities: {name} holds other things than integers")
    wrong = table[(table < least) | (table >= end)]
    if wrong.size:
        raise ValueError(
            f"entities: {name} holds {wrong[0]}, which is not from {least} to {end - 1}"
        )
    return table.astype(np.int64)
