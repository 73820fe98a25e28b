"""Workflows: the order in which groups of targets are fixed, agents that keep an order, and which
order is best."""

ENV_ID = "workflow_rl/OrderedCAGE2-v0"
