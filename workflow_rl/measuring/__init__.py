"""Measurements of this machine: `benchmark`, and measurements that take turns."""
