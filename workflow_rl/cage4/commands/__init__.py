"""Commands that only CAGE-4 has."""
