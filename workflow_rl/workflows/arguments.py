"""The arguments of CAGE-2 with orders."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from workflow_rl.agents.settings import NotNegative, OneOf
from workflow_rl.cage2.guest import ACTION_SETS, Cage2Arguments
from workflow_rl.errors import ConfigError
from workflow_rl.workflows.cage2_rules import HostRules
from workflow_rl.workflows.environment import OrderedCage2
from workflow_rl.workflows.rules import OBEDIENCE, check_obedience


class OrderedCage2Arguments(Cage2Arguments):
    """The checked arguments of `OrderedCage2`. Raises ConfigError."""

    observation: Annotated[str, OneOf(("belief",))] = Field(
        OrderedCage2.observation,
        description="belief tells which group has to be fixed next.",
    )
    actions: Annotated[str, OneOf(ACTION_SETS)] = Field(
        OrderedCage2.actions, description=Cage2Arguments.model_fields["actions"].description
    )
    workflow: str = Field(
        OrderedCage2.workflow,
        description="Groups of hosts and constraints on their order, such as 'servers: Op_Server0 "
        "Enterprise2; users: User1 User2; servers < users'. By default the five types of units of "
        "Jiang et al. (2026).",
    )
    order: str = Field(
        OrderedCage2.order,
        description="The groups in the order of fixing, such as 'servers,users'. By default each "
        "episode draws an order.",
    )
    obedience: Annotated[str, OneOf(OBEDIENCE)] = Field(
        OrderedCage2.obedience,
        description="How the agent keeps to the order. mask: a fix that breaks the order is "
        "impossible. penalty: a fix that breaks the order costs reward.",
    )
    penalty: NotNegative = Field(
        OrderedCage2.penalty, description="What a fix that breaks the order costs, as reward."
    )

    @model_validator(mode="after")
    def _is_an_order(self) -> Self:
        try:
            rules = HostRules(self.workflow, self.actions)
        except ValueError as error:
            raise ConfigError("workflow", str(error)) from None
        try:
            if self.order:
                rules.workflow.order_named(self.order)
        except ValueError as error:
            raise ConfigError("order", str(error)) from None
        try:
            check_obedience(self.obedience, self.penalty)
        except ValueError as error:
            raise ConfigError("penalty", str(error)) from None
        return self
