"""The official CybORG 4 of the user's checkout, as published and sped up.

Both give what `scenario.simulator_protocol` says, bit for bit as the compiled simulator does.
`simulators` makes any simulator by its name. Start with `stock`, CybORG as published; `sped_up`
plays the same episodes on the copy of `speedups`.
"""
