"""Score, choose, replay and submit agents of CAGE-2."""
