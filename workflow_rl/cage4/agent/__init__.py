"""Blue teams of CAGE Challenge 4."""
