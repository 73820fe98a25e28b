"""Templates of the pages about CAGE-2."""
