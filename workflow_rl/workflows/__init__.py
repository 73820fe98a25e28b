"""Workflows: the order in which groups of targets are fixed, agents that keep an order, and which
order is best."""
