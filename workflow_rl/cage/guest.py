"""The base class of the CAGE challenges' guests, with what `cage.commands` need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from workflow_rl.environments.challenge import Guest

if TYPE_CHECKING:
    from workflow_rl.cage.recipe import Recipe


class ChampionBudget(NamedTuple):
    """How many episodes each part of the command `train-champion` plays by default."""

    training: int
    selection: int
    score: int


class CageGuest(Guest):
    champion: ClassVar[ChampionBudget | None] = None
    """None if the challenge has no recipe."""

    def champion_recipe(self) -> Recipe:
        """Return the recipe of the strongest agent. Called only if `champion` is not None."""
        raise NotImplementedError

    def parity(self) -> Any:
        """Return the click command that compares this environment's simulators, or None if the
        environment has only one simulator."""
        return None
