"""The spaces of an environment, for which an agent is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workflow_rl.agents.policies.distributions import Bounds, Distribution

if TYPE_CHECKING:
    from workflow_rl.agents.policies.convolutional import ImageLayout
    from workflow_rl.agents.policies.entity_layout import EntityLayout
    from workflow_rl.agents.team import TeamLayout


class Spaces(NamedTuple):
    """The observations and the actions of an environment.

    obs_dim: numbers in an observation, without its mask. distribution: the distribution over
    actions. bounds: lower and upper bounds of an action's numbers, if they are real numbers. bits:
    whether an observation's numbers are 0 and 1. masked: whether each observation ends with a mask:
    see `agents.policies.distributions`. team: the layout of a row if several agents play. The row
    has `team.row_size` numbers. entities: the layout of entities, if the environment declares
    entities. privileged: the number of values for the critic only, between an observation and its
    mask. images: the layout of images, if there are any. costs: the names of a step's costs.
    """

    obs_dim: int
    distribution: Distribution
    bounds: Bounds | None = None
    bits: bool = False
    masked: bool = False
    team: TeamLayout | None = None
    entities: EntityLayout | None = None
    privileged: int = 0
    images: ImageLayout | None = None
    costs: tuple[str, ...] = ()
