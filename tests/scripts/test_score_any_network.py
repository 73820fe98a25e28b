"""The networks that no training of any-network has seen, and the table of scores."""

from scripts.score_any_network import networks, preset_scenario, table
from workflow_rl.cage2.red.roster import refusals
from workflow_rl.cage2.scenario.family import ScenarioFamily


def test_the_networks_are_outside_the_family():
    sizes = {name: len(network.hosts) for name, network in networks().items()}
    variants = {f"variant{number}": 13 - number for number in range(7)}
    assert sizes == {**variants, "hosts20": 20, "hosts30": 30, "scenario2": 13}
    assert all(set(refusals(n).values()) == {None} for n in networks().values())
    family = ScenarioFamily.from_text(preset_scenario())
    described = [network.description() for network in networks().values()]
    for number in range(10):
        drawn = family.draw(number)
        assert 7 <= len(drawn.hosts) <= 16
        assert drawn.description() not in described


def test_the_table_sums_cells_and_takes_the_median_of_seeds():
    rows = [
        {"agent": agent, "network": "hosts20", "mean": mean}
        for agent, means in (("any-1", (-1, -2)), ("any-2", (-5, 0)), ("hosts20-1", (-2, -2)))
        for mean in means
    ]
    (line,) = (line for line in table(rows).splitlines() if line.startswith("hosts20"))
    assert "any -4.0 (-5.0 to -3.0, 2 seeds)" in line
    assert "specialist -4.0 (-4.0 to -4.0, 1 seeds)" in line
