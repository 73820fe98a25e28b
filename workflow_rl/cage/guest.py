"""A CAGE challenge as a guest: what the commands of `cage.commands` ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from workflow_rl.environments.challenge import Guest

if TYPE_CHECKING:
    from workflow_rl.cage.recipe import Recipe


class ChampionBudget(NamedTuple):
    """How many episodes the command `train-champion` spends on each of its parts by default."""

    training: int
    selection: int
    score: int


class CageGuest(Guest):
    """One side of a CAGE challenge."""

    champion: ClassVar[ChampionBudget | None] = None
    """What `train-champion` spends, where there is a recipe."""

    def champion_recipe(self) -> Recipe:
        """Return how the strongest agent is made. Called if `champion` is not None."""
        raise NotImplementedError

    def parity(self) -> Any:
        """Return the click command that compares simulators of this environment, for `parity`.
        None if there is nothing to compare."""
        return None
