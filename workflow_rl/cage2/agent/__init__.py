"""The observations and actions of CAGE-2's agents, and the scripted agents."""
