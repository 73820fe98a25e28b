"""Policies as workers import them: networks as arrays, distributions, policy files."""
