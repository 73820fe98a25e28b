"""Blue teams of CAGE Challenge 4: from what a simulator shows to five actions.

`raw_record` is what the raw observations tell, `belief` what blue knows from all of them, `views`
what the policies see of it. `scripted` names the teams that come with the package. Most modules
need NumPy alone, because submissions contain copies. Start with `scripted`.
"""
