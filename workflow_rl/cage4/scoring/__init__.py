"""Scores on CAGE Challenge 4, by the challenge's own evaluation."""
