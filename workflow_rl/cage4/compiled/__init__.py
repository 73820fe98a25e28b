"""CAGE Challenge 4 in compiled code: each seed gives the episode of CybORG 4.

Actions and seeds come in, observations and rewards come out. In compiled functions, `s` is the
record of one network: see `state`. The record holds the whole true state, in the order of CybORG's
containers. A module names the classes of CybORG that it repeats, and a function's docstring names
CybORG's method. Start with `batched_simulator`, then `episode`."""
