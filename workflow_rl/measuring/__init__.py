"""Measurements of this machine.

`benchmark.py` says and shows how fast each way of collecting is, and how near it comes to the
machine's limit.
"""
