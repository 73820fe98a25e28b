"""Code that the guests of all CAGE challenges share."""
