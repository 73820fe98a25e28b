"""Who can be named as Red in CAGE Challenge 4, what red agents can do, and what they see.

`red_api` says what six red agents can do and see. `roster` reads the red agents that a user names,
and plays trained teams. `scripted` teams choose from outside of a simulator, for comparisons of
simulators. Start with `red_api`.
"""
