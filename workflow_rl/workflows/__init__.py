"""The guest of workflows: agents that fix groups of targets in a given order, and the search for
the best order."""

ENV_ID = "workflow_rl/OrderedCAGE2-v0"
