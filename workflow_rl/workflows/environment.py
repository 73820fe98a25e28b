"""CAGE-2, with a blue agent that keeps to an order, as the Environment of a run."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import ClassVar, Self

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.workflows import ENV_ID
from workflow_rl.workflows.cage2_rules import UNIT_TYPES, HostRules
from workflow_rl.workflows.order import Order
from workflow_rl.workflows.ordered_batch import OrderedEnvs
from workflow_rl.workflows.rules import MASK, OrderedActor, n_order_bits


@dataclass(frozen=True)
class OrderedCage2(Cage2):
    """CAGE-2 with an order in Blue's observations. `arguments.OrderedCage2Arguments` describes and
    checks the arguments."""

    observation: str = "belief"
    actions: str = "by-host"
    workflow: str = UNIT_TYPES
    order: str = ""
    obedience: str = MASK
    penalty: float = 0.0

    env_id: ClassVar[str] = ENV_ID

    @functools.cached_property
    def rules(self) -> HostRules:
        return HostRules(self.workflow, self.actions)

    @property
    def _order(self) -> Order | None:
        return self.rules.workflow.order_named(self.order) if self.order else None

    def scored(self) -> Self:
        """Return the environment in which agents are scored. There, no fix costs a penalty."""
        return dataclasses.replace(super().scored(), penalty=0.0)

    def spaces(self) -> Spaces:
        """Return the spaces. Observations are the belief and the order's bits, then the mask if the
        obedience is "mask"."""
        spaces = super().spaces()
        n_bits = n_order_bits(self.rules.workflow, self.obedience)
        # There is no layout of entities, because the order's bits belong to no host.
        return spaces._replace(
            obs_dim=spaces.obs_dim + n_bits, masked=self.obedience == MASK, entities=None
        )

    def actor_on_observations(self, actor: Actor, network: Scenario | None = None) -> Actor:
        """Wrap an actor of these envs: the wrapped actor observes the 52 bits, and returns one of
        the 145 actions."""
        ordered = OrderedActor(actor, self.rules, self._order, self.obedience)
        return super().actor_on_observations(ordered, network)

    def _make_envs(self, n_envs: int) -> EnvBatch:
        envs = super()._make_envs(n_envs)
        return OrderedEnvs(envs, self.rules, self._order, self.obedience, self.penalty)
