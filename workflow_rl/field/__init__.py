"""Simulators of the field that need a few lines to be trained on: name what a module defines with
`--env`. Each imports its simulator, which has to be installed."""
