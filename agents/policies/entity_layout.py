"""The layout of entities in an observation, and the entities of actions. Imports no torch.

Entities are several things of one kind, such as the hosts of a network. An environment declares its
entities in an attribute `entities`, a mapping of these tables:

features: int [N, F]. The columns of the flat observation that describe each of N entities by F
    numbers, in an order common to all entities. -1 means a number that is always 0.
actions: int [A, 2]. An action on an entity has the number of its verb, and the entity. An action on
    no entity has its own number, and -1. The rows of MultiDiscrete's choices follow one another.
present: int [N], optional. The columns that are above 0 where an entity exists.
traits: float [N, C], optional. Constant numbers that distinguish the entities.
edges: optional. For each name of a relation, int [E, 2] or [E, 3]: an entity, another entity that
    it hears of, and the column that is above 0 where the edge exists, or -1 for always.

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

TABLES = ("features", "actions", "present", "traits", "edges")

ALWAYS, NEVER = -2, -1
"""Columns of a 1 and of a 0, if both are appended to observations."""


class EntityLayout:
    """The checked tables of an environment, for observations of `n_inputs` numbers.

    A layout without actions is for a critic. Raises ValueError for wrong tables.
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
        # This form of the comparison also refuses NaN.
        holds = traits.dtype.kind in "biuf" and (np.abs(traits) < np.finfo(np.float32).max).all()
        if traits.ndim != 2 or len(traits) != self.n_entities or not holds:
            raise ValueError(f"entities: traits has not {self.n_entities} rows of numbers")
        self.traits = traits.astype(np.float32)
        self.edges = self._edges_of(tables.get("edges", {}))

    @property
    def n_outputs(self) -> int:
        """`A` for an actor, 1 for a critic."""
        return len(self.actions) or 1

    @property
    def _has_entity(self) -> NDArray[np.bool_]:
        return self.actions[:, 1] >= 0

    @functools.cached_property
    def n_verbs(self) -> int:
        return int(self.actions[self._has_entity, 0].max(initial=-1)) + 1

    @functools.cached_property
    def n_plain(self) -> int:
        """The number of outputs of no entity: of actions, or of the value."""
        if not len(self.actions):
            return 1
        return int(self.actions[~self._has_entity, 0].max(initial=-1)) + 1

    @functools.cached_property
    def whole(self) -> Table:
        """The columns [G] that describe the whole."""
        of_entities = [*self.features.ravel(), *self.present, *self.telling]
        return np.setdiff1d(np.arange(self.n_inputs), of_entities)

    @functools.cached_property
    def telling(self) -> Table:
        """The columns that decide which edges exist."""
        columns = np.concatenate([np.zeros(0, np.int64), *(e[:, 2] for e in self.edges.values())])
        return columns[columns >= 0]

    @functools.cached_property
    def neighbours(self) -> Table:
        """The columns [R, N, N] that are above 0 if an entity hears of another entity by a
        relation. They are columns of an observation with a 1 and a 0 appended."""
        table = np.full((len(self.edges), self.n_entities, self.n_entities), NEVER)
        for of_relation, edges in zip(table, self.edges.values(), strict=True):
            entity, neighbour, column = edges.T
            of_relation[entity, neighbour] = np.where(column < 0, ALWAYS, column)
        return table

    @functools.cached_property
    def places(self) -> Table:
        """The index of each output [A] in the scores [N * V] with the other outputs appended."""
        if not len(self.actions):
            return np.zeros(1, np.int64)
        number, entity = self.actions.T
        after = self.n_entities * self.n_verbs + number
        return np.where(self._has_entity, entity * self.n_verbs + number, after)

    @functools.cached_property
    def alike(self) -> Table:
        """A number for each column [n_inputs], equal for one feature of all entities. It is -1 for
        the columns that decide which entities and edges exist."""
        alike = np.full(self.n_inputs, -1)
        n_features = self.features.shape[1]
        alike[self.whole] = n_features + np.arange(len(self.whole))
        for feature, columns in enumerate(self.features.T):
            alike[columns[columns >= 0]] = feature
        alike[[*self.present, *self.telling]] = -1
        return alike

    @property
    def counts(self) -> dict[str, Any]:
        """The properties that must be equal in two layouts if one network is to play both."""
        return {
            "features": self.features.shape[1],
            "traits": self.traits.shape[1],
            "numbers that describe the whole": len(self.whole),
            "verbs": self.n_verbs,
            "actions on no entity": self.n_plain,
            "edges": ", ".join(self.edges) or "none",
        }

    def demand_like(self, other: EntityLayout) -> None:
        """Raise ValueError if one network's weights cannot play both this layout and the other."""
        counts, others = self.counts, other.counts
        for name, count in counts.items():
            if count != others[name]:
                raise ValueError(
                    f"it learned with {name}: {count}, and the environment has {others[name]}"
                )

    def to_plain(self) -> dict[str, Any]:
        tables = {name: getattr(self, name).tolist() for name in TABLES if name != "edges"}
        if self.edges:
            tables["edges"] = {name: edges.tolist() for name, edges in self.edges.items()}
        return {"n_inputs": self.n_inputs, **tables}

    def without_fixed_edges(self) -> EntityLayout:
        """Return the layout for networks that do not use edges."""
        told = {name: edges[edges[:, 2] >= 0] for name, edges in self.edges.items()}
        edges = {name: table for name, table in told.items() if len(table)}
        return layout_of({**self.to_plain(), "edges": edges})

    def _edges_of(self, relations: Any) -> dict[str, Table]:
        """Return the edges [E, 3] of each relation. Raises ValueError for other values."""
        if not isinstance(relations, Mapping) or not all(type(name) is str for name in relations):
            raise ValueError("entities: edges has no names of relations")
        if len(relations) * self.n_entities**2 > MOST:
            raise ValueError(f"entities: edges could join more than {MOST} pairs")
        found = {}
        for name in relations:
            edges = _table(relations, name, -1, MOST)
            if edges.size and (edges.ndim != 2 or edges.shape[1] not in (2, 3)):
                raise ValueError(f"entities: edges of {name!r:.50} are no rows of 2 or 3 numbers")
            if edges.ndim == 2 and edges.shape[1] == 2:
                edges = np.pad(edges, ((0, 0), (0, 1)), constant_values=-1)
            found[name] = edges = edges.reshape(-1, 3)
            ends, columns = edges[:, :2], edges[:, 2]
            if (ends < 0).any() or (ends >= self.n_entities).any():
                raise ValueError(f"entities: edges of {name!r:.50} join an entity that is none")
            if (columns >= self.n_inputs).any():
                raise ValueError(f"entities: edges of {name!r:.50} name a column that is none")
        return found


def layout_of(values: Any) -> EntityLayout:
    """Return the layout from a result of `to_plain`. Raises ValueError."""
    if not isinstance(values, Mapping):
        raise ValueError(f"entities: {values!r:.50} are no tables")
    return EntityLayout(
        values.get("n_inputs", 0),
        {name: table for name, table in values.items() if name != "n_inputs"},
    )


def are_tables(values: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether values have a name of a table of entities."""
    return isinstance(values, Mapping) and bool(values.keys() & set(TABLES))


def declared(tables: Mapping[str, Any], n_inputs: int, n_outputs: int) -> EntityLayout:
    """Return the layout of an environment that declares `tables`. Raises ValueError.

    n_inputs: the numbers in an observation without its mask. n_outputs: the actor's outputs.
    """
    layout = EntityLayout(n_inputs, tables)
    if len(layout.actions) != n_outputs:
        raise ValueError(f"entities: actions has {len(layout.actions)} rows, not {n_outputs}")
    return layout


def carried(numbers: NDArray[Any], before: EntityLayout, after: EntityLayout) -> NDArray[Any]:
    """Return numbers [n_inputs] of one layout's columns for another layout: see `alike`.

    Raises ValueError if a column of the other layout is like no column of this layout.
    """
    of = dict(zip(before.alike.tolist(), numbers.tolist(), strict=True))
    if not of.keys() >= set(after.alike.tolist()):
        raise ValueError("its entities are described by other numbers than those it learned on")
    return np.array([of[group] for group in after.alike.tolist()], numbers.dtype)


def _table(tables: Mapping[str, Any], name: str, least: int, end: int) -> Table:
    """Return a table of integers from `least` to `end` - 1. Raises ValueError."""
    table = np.asarray(tables.get(name, ()))
    if table.size and table.dtype.kind not in "iu":
        raise ValueError(f"entities: {name} holds other things than integers")
    wrong = table[(table < least) | (table >= end)]
    if wrong.size:
        raise ValueError(
            f"entities: {name} holds {wrong[0]}, which is not from {least} to {end - 1}"
        )
    return table.astype(np.int64)
