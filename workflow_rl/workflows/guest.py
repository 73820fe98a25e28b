"""CAGE-2 with orders as a guest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.environments.challenge import NOTHING, Export
from workflow_rl.errors import ConfigError
from workflow_rl.workflows import ENV_ID

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.environment import Environment


class OrderedCage2Guest(Cage2Guest):
    """CAGE Challenge 2 with an agent that fixes groups of hosts in a given order."""

    env_id = ENV_ID
    title = "CAGE-2 workflows"
    # Of CAGE-2's presets, only this one has Scenario 2 and the observation belief.
    presets: ClassVar = {"workflow-quick": Cage2Guest.presets["cage2-quick"]}
    measured: ClassVar = {}
    released: ClassVar = {}
    champion: ClassVar = None

    def arguments(self) -> type[Settings]:
        from workflow_rl.workflows.arguments import OrderedCage2Arguments

        return OrderedCage2Arguments

    def make(self, args: Settings) -> Environment:
        from workflow_rl.workflows.environment import OrderedCage2

        return OrderedCage2(**dict(args))

    def known_returns(self, args: Mapping[str, Any]) -> Mapping[str, float]:
        # With a penalty, returns contain the penalties, so known returns cannot be compared.
        is_priced = args["obedience"] == "penalty" and args["penalty"]
        return NOTHING if is_priced else super().known_returns(args)

    def teaching(self, agent: str, environment: Environment) -> None:
        if not Path(agent).exists():
            raise ConfigError(
                "teacher", f"{agent} keeps no order: give the folder or file of an {ENV_ID} agent"
            )

    def parity(self) -> None:
        return None  # The simulators are CAGE-2's, whose guest has this command.

    def findings(self) -> tuple[()]:
        return ()

    def exports(self) -> Mapping[str, Export]:
        from workflow_rl.workflows.submission.export import write_submission

        return {"cage2": write_submission}
