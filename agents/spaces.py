"""What an agent is made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workflow_rl.agents.policies.distributions import Bounds, Distribution

if TYPE_CHECKING:
    from workflow_rl.agents.policies.convolutional import ImageLayout
    from workflow_rl.agents.policies.entity_layout import EntityLayout
    from workflow_rl.agents.team import TeamLayout


class Spaces(NamedTuple):
    """The observations and the actions of an environment.

    obs_dim: numbers in an observation, without its mask. distribution: over the actions. bounds:
    the least and the greatest of an action's numbers, if they are real numbers. bits: whether an
    observation's numbers are integers from 0 to 1. masked: whether each observation ends with a
    mask: see `agents.policies.distributions`. team: where the parts of a row stand, if several
    agents play; the row then has `team.row_size` numbers. entities: which numbers and actions
    belong to which entity, if the environment declares entities. privileged: how many numbers
    follow those of an observation, before its mask, which only a critic sees. images: which numbers
    are images, if there are any. costs: the names of the costs that each step has beside its
    reward.
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
