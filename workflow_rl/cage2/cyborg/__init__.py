"""CybORG, found, sped up and copied."""
