"""What CAGE Challenge 4 is, whichever simulator plays it.

`scenario4` has the facts: zones, hosts, phases, rewards, blue actions and the layout of
observations. Its `Scenario` lists the values that users can change. `simulator_protocol` says what
a simulator takes and gives. `scenario` imports no other room. Start with `scenario4`.
"""
