"""The red agents of CAGE Challenge 4: which can be named, what they can do, and what they see.

`red_api` has the actions and the observations of the six red agents. `roster` finds the red agents
that a user names, and plays trained teams. `by_hand` has the library of attackers. The teams in
`scripted` are for comparisons of simulators. Start with `red_api`.
"""
