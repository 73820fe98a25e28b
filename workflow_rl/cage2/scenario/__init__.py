"""The networks that CAGE-2 plays: a scenario, or a family of which each episode draws one.

In goes what a user names: scenario2, scenario1b, a scenario file of CybORG's, or the file of a
family. A run keeps the text of it. Out comes a `Scenario` or a `ScenarioFamily` that was checked.

Start reading at `loading`. `scenario` is the value, `files` reads and writes YAML, `checks` refuses
what cannot be played, `family` draws networks, and `report` describes one in words and pictures.
"""
