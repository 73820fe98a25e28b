"""Measurements of this machine.

`benchmark.py` measures the speed of each way of collecting, and compares the speed with the
machine's limit.
"""
