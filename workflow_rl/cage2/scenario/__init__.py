"""The networks that CAGE-2 plays: a scenario, or a family from which each episode draws a scenario.

The input is what a user names: scenario2, scenario1b, a scenario file in CybORG's format, or a
family file. The output is a checked `Scenario` or `ScenarioFamily`. A run keeps its text.

Start reading at `loading`. `scenario` has the value, `files` reads and writes YAML, `checks`
refuses scenarios that cannot be played, `family` draws networks, and `report` describes a network.
"""
