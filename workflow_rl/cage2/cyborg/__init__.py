"""How CybORG is imported, sped up and copied."""
