"""The settings of a duel. Imports no torch: the command line reads its defaults here."""

from typing import Literal

from pydantic import Field

from workflow_rl.agents.settings import Count, Settings
from workflow_rl.environments.environment import weights_of
from workflow_rl.runs.config import Episodes


class DuelConfig(Settings):
    """How two sides learn from each other. Making one raises ConfigError."""

    generations: Count = Field(
        8, description="Number of generations, in each of which both sides train."
    )
    opponents: Literal["equilibrium", "prioritised", "uniform", "latest"] = Field(
        "equilibrium",
        description="Whom a new policy learns against. equilibrium: the other side's mixture in "
        "the equilibrium of the payoff table. prioritised: all older policies, those that win most "
        "against this side's latest most often. uniform: all older policies alike. latest: the "
        "latest alone, which is naive self-play.",
    )
    payoff_episodes: Episodes = Field(
        400, description="Number of episodes of each pair in the payoff table, the same for all."
    )
    warm_start: bool = Field(
        False, description="Begin each policy with what the side's policy before it has learned."
    )
    warm_start_side: str = Field(
        "",
        description="The side to which --warm-start applies. By default it applies to both.",
    )
    copy_known: bool = Field(
        False,
        description="Begin the policies of a side as copies of its attackers that were written by "
        "hand, as exploit does: the first as a copy of the one that gets the most, the second "
        "of --responses as a copy of the next, the third untrained, and so on.",
    )
    keep: str = Field(
        "",
        description="Agents of --start that new policies of the other side meet in a fixed share "
        "of their episodes, such as B_lineAgent=0.3,RedMeanderAgent=0.2. --opponents chooses in "
        "the others.",
    )
    responses: str = Field(
        "",
        description="Number of policies that a side trains in each generation, such as Red=5, with "
        "a seed each; 1 by default. Several attackers find more of a defender's weak points.",
    )
    sides: str = Field(
        "",
        description="For an environment with more than two agents: which side each is on, such as "
        "'adversary_*=chasers,*=runner'.",
    )

    @property
    def kept(self) -> dict[str, float]:
        """The shares of `keep`, by agent."""
        return weights_of(self.keep, "keep") if self.keep else {}
