"""The team of this folder: the rules."""

from acting_rules import RuleTeam as make_team  # noqa: F401
