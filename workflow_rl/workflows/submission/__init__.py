"""Export an agent that takes an order for the challenge's organisers."""
