"""Commands that the CAGE challenges share."""
