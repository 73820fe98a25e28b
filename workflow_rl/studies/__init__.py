"""Studies of many runs: searches for settings, and populations."""
