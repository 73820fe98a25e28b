"""Measurements of this machine.

`benchmark.py` says how fast each way of collecting is, and how near it comes to the machine's
limit; `benchmark_report.py` shows that.
"""
