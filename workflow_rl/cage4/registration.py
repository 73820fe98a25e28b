"""Registers CAGE-4 as a guest of the trainers. Every worker imports this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage4.cyborg.checkout import VARIABLE
from workflow_rl.environments.environment import Environment, register
from workflow_rl.environments.guest import Export, Guest, Scoring

if TYPE_CHECKING:
    from agents.settings import Settings

ENV_ID = "workflow_rl/CAGE4-v0"


class Cage4Guest(Guest):
    """CAGE Challenge 4."""

    env_id = ENV_ID
    places: ClassVar = {"cyborg4": (VARIABLE, "A checkout of the official CybORG 4.")}
    flags: ClassVar = {"stock_simulator": {"simulator": "cyborg-stock"}}
    measured: ClassVar = {
        "compiled": {"simulator": "compiled"},
    }
    fastest: ClassVar = {"simulator": "compiled"}

    def arguments(self) -> type[Settings]:
        from workflow_rl.cage4.env.settings import Cage4Arguments

        return Cage4Arguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.cage4.env.environment import Cage4

        return Cage4(**dict(args))

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        from workflow_rl.cage4.scoring.leaderboard import known_returns

        return known_returns(args)

    def scoring(self) -> Scoring:
        from workflow_rl.cage4.scoring.scoring import Cage4Scoring

        return Cage4Scoring()

    def exports(self) -> Mapping[str, Export]:
        return {}


register(Cage4Guest())
