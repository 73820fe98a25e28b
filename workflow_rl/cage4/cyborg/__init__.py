"""The official CybORG 4 of the user's checkout, as published and sped up.

Both are simulators of `scenario.simulator_protocol`, and equal the compiled one bit for bit.
`simulators` makes any simulator by its name. Start with `stock`, which is CybORG as published.
`sped_up` plays the same episodes on the copy of `speedups`.
"""
