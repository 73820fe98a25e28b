"""Blue teams of CAGE Challenge 4: from what a simulator shows to five actions.

`raw_record` turns raw observations into arrays. `belief` sums up what these arrays showed since the
reset. `views` makes the inputs of policies. `scripted` names the teams of the package. Most
modules need NumPy alone, because submissions contain copies. Start with `scripted`."""
