"""Measurements of this machine and of the ways of collecting: `benchmark`, `compare-modes`."""
