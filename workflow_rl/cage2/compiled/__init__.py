"""Compiled code that plays the scenarios of CAGE-2. A seed gives the same episode as in CybORG.

A function's docstring names the class or method of CybORG that the function follows. The argument
`s` is the record of one network, see `state`. This record holds only what an episode can show or
what can change a later draw. The argument `t` is the record of a scenario's tables, see `tables`.
"""
