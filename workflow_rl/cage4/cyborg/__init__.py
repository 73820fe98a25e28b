"""The official CybORG 4, found, imported and sped up."""
