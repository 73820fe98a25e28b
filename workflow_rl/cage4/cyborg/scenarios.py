"""CybORG's generator of scenarios, for every `Scenario`.

In CybORG, each value of a `Scenario` is a default argument of its greens, an attribute of a red
action, or a constant of its generator. Subclasses change only this value, so that CybORG makes all
draws. For the challenge's values, CybORG's own classes play.
"""

from collections.abc import Callable
from typing import Any

from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, FROM_OUTSIDE, Scenario


def scenario_generator(cyborg: Cyborg, red_agent: str, max_steps: int, scenario: Scenario) -> Any:
    """Return CybORG's generator of networks with CybORG's greens and reds, and blues that sleep."""
    agents = cyborg["Agents"]
    generator_class = cyborg["Simulator.Scenarios"].EnterpriseScenarioGenerator
    if red_agent == FROM_OUTSIDE:
        red_class = _puppet(agents.FiniteStateRedAgent)
    elif ":" in red_agent:
        red_class = cyborg.user_class(red_agent)
    else:
        red_class = getattr(agents, red_agent)
    if scenario != CHALLENGE:
        generator_class = _generator_class(generator_class, agents.EnterpriseGreenAgent, scenario)
        red_class = _red_class(red_class, scenario)
    generator = generator_class(
        blue_agent_class=agents.SleepAgent,
        green_agent_class=agents.EnterpriseGreenAgent,
        red_agent_class=red_class,
        steps=max_steps,
    )
    # From a range of one number, CybORG draws nothing. The values are set on the instance, because
    # CybORG's wrappers read the largest possible network from the class.
    if scenario.users is not None:
        generator.MIN_USER_HOSTS = generator.MAX_USER_HOSTS = scenario.users
    if scenario.servers is not None:
        generator.MIN_SERVER_HOSTS = generator.MAX_SERVER_HOSTS = scenario.servers
    return generator


def _generator_class(official: Any, official_green: Any, scenario: Scenario) -> Any:
    class Green(official_green):
        # CybORG calls __init__ again, with three arguments, when an episode ends.
        def __init__(self, name: str, own_ip: Any, np_random: Any = None) -> None:
            rates = (scenario.false_alert_rate, scenario.phishing_rate)
            super().__init__(name, own_ip, np_random, *rates)

    class Generator(official):
        # CybORG gives the host's address only to agents whose class is `EnterpriseGreenAgent`.
        def _generate_green_agents(self, hosts: Any, subnets: Any, agents: Any) -> None:
            super()._generate_green_agents(hosts, subnets, agents)
            for name, agent in agents.items():
                if agent.team == "Green":
                    agent.agent_type = Green(name, agent.agent_type.own_ip, self.np_random)

    return Generator


def _red_class(official: Any, scenario: Scenario) -> Any:
    detection = {
        "AggressiveServiceDiscovery": scenario.aggressive_scan_detection,
        "StealthServiceDiscovery": scenario.stealth_scan_detection,
    }

    class Red(official):
        def get_action(self, observation: Any, action_space: Any) -> Any:
            action = super().get_action(observation, action_space)
            action.duration = min(action.duration, scenario.longest_red_action)
            if action.name in detection:
                action.detection_rate = detection[action.name]
            return action

    return Red


def _puppet(official: Any) -> Any:
    """Return a subclass of `FiniteStateRedAgent` that plays the action that `told` returns, and
    remembers observations as the official agent does."""

    class Puppet(official):
        told: Callable[[], Any]

        def get_action(self, observation: Any, action_space: Any) -> Any:
            return self.told()

        def remember(self, observation: dict[str, Any]) -> None:
            """Read an observation as the official agent does before it chooses."""
            super().get_action(observation, None)

        def _choose_host_and_action(self, action_space: Any, host_options: Any) -> Any:
            return None, None

    return Puppet
