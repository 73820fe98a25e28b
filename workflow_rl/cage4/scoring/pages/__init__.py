"""What the page of an episode of CAGE-4 shows of one team."""
