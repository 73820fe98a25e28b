"""The official CybORG 4 from the user's checkout: as published, and sped up.

Both are simulators of `scenario.simulator_protocol`, and equal the compiled simulator bit for bit.
`simulators` makes any simulator by its name. Start with `stock`, which is the published CybORG.
`sped_up` plays the same episodes on the copy that `speedups` changes.
"""
