"""CAGE Challenge 4 in compiled code: each seed gives the episode of CybORG 4.

Actions and seeds come in, observations and rewards come out. In compiled functions, `s` is the
record of one network: see `state`. It holds the whole true state, with the order of CybORG's
containers. A module names the classes of CybORG that it repeats, and a docstring may begin with the
name of CybORG's method. Start with `batched_simulator`, then `episode`.
"""
