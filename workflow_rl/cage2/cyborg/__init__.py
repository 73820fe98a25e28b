"""These modules import CybORG, speed it up and copy it."""
