"""The team of this folder: the rules of `acting_rules`."""

from acting_rules import RuleTeam as make_team  # noqa: F401
