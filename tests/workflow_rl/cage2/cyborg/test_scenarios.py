"""csle-cyborg, sped up, plays other scenarios as csle-cyborg as published does."""

import random

import pytest

from workflow_rl.cage2.cyborg.simulators import make_simulator
from workflow_rl.cage2.scenario.scenario import Scenario


def large() -> Scenario:
    """A network with a subnet that needs more addresses than those of Scenario 2."""
    scenario = Scenario.scenario2().add_subnet("Lab", only_from_enterprise=["User"])
    for number in range(5, 20):
        scenario = scenario.add_host(f"User{number}", "Gateway", "User", leads_to=["Enterprise0"])
    return scenario.add_host("Lab0", "OP_Server", "Lab", "High", "High", ["Op_Server0"])


def of_challenge_1() -> Scenario:
    """CAGE Challenge 1's actions of Blue's, and Red on another host."""
    kinds = ("Sleep", "Monitor", "Analyse", "Remove", "Misinform", "Restore")
    return Scenario.scenario2().let_blue(kinds).enter_at("User3")


@pytest.mark.parametrize(
    ("scenario", "red_agent"),
    [
        (large(), "B_lineAgent"),
        (large(), "RedMeanderAgent"),
        (of_challenge_1(), "RedMeanderAgent"),
    ],
)
def test_traces_are_equal(scenario: Scenario, red_agent: str):
    published, sped_up = (
        make_simulator(name, 40, scenario=scenario) for name in ("published", "cyborg")
    )
    actions = random.Random(1)
    for seed in (1, 2):
        assert (published.reset(seed, red_agent) == sped_up.reset(seed, red_agent)).all()
        for _ in range(40):
            action = actions.randrange(len(scenario.action_names))
            (obs, reward), (other, others) = published.step(action), sped_up.step(action)
            assert (obs == other).all()
            assert reward == others
            assert published.facts[:4] == sped_up.facts[:4]
            assert (published.facts[4] == sped_up.facts[4]).all()
            assert published.texts == sped_up.texts
