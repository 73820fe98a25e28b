"""An agent as the challenge takes it: a folder that needs NumPy and none of this package."""
