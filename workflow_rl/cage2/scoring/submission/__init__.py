"""Export an agent for the challenge's organisers, in a folder that does not need this package."""
