"""Policies for workers: networks as arrays, distributions, policy files."""
