"""What CAGE Challenge 4 is, whichever simulator plays it.

`scenario4` has the facts: zones, hosts, phases, rewards, blue actions, the layout of observations,
and `Scenario`, what can be changed of the challenge. `simulator_protocol` says what a simulator
takes and gives. All other rooms read this one, which reads none of them. Start with `scenario4`.
"""
