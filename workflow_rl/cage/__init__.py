"""What the CAGE challenges have in common."""
