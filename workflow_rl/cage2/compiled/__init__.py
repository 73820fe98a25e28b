"""Scenarios of CAGE-2 in compiled code: seed for seed the episodes of CybORG.

Each function names the class of CybORG that it follows. Only what an episode can show, or what can
change a later draw, is kept: see `state`.
"""
