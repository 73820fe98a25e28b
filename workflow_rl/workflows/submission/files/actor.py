"""The agent of this folder acts by the policy, and keeps to an order."""

from typing import Any

from acting_cage2_rules import HostRules
from acting_rules import OrderedActor


def actor_of(policy: Any, args: dict[str, Any]) -> OrderedActor:
    """Return the actor. args: the arguments of the environment in which the policy learned."""
    rules = HostRules(args["workflow"], args["actions"])
    order = rules.workflow.order_named(args["order"]) if args["order"] else None
    return OrderedActor(policy, rules, order, args["obedience"])
