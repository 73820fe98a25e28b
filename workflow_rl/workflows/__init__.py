"""Workflows: orders in which groups of targets are fixed, agents that keep to an order, and the
search for the best order."""

ENV_ID = "workflow_rl/OrderedCAGE2-v0"
