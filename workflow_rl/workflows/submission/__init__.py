"""An agent to hand in that takes an order."""
