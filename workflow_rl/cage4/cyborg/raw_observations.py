"""What CybORG 4 itself shows a blue agent, as dictionaries of plain values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent.raw_record import plain_observation
from workflow_rl.cage4.cyborg.episode import Episode
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.scenario.scenario4 import AGENTS


def stock_observations(controller: Any) -> tuple[dict[str, Any], ...]:
    """Return the five dictionaries of a `SimulationController`.

    The wrapper has combined each agent's observations into the agent's first observation.
    """
    return tuple(
        plain_observation(controller.observation[agent].observations[0].data) for agent in AGENTS
    )


def sped_up_observations(
    cyborg: Cyborg, episode: Episode, messages: NDArray[Any]
) -> tuple[dict[str, Any], ...]:
    """Return the five dictionaries of the last step, or of the reset.

    The sped-up copy does not describe events while it plays. This function describes the events
    that Monitor moved to the lists of old events. No event changes between the step and this call.

    messages: `[5, 8]`, the messages that were sent in the step.
    """
    observation = cyborg["Shared.Observation"].Observation
    dictionaries = []
    for sender, agent in enumerate(AGENTS):
        if episode.step_count == 0:
            known = episode.state.scenario.agents[agent].osint["Hosts"]
            parts = {host: {**facts, "Sessions": agent} for host, facts in known.items()}
            shown = episode.state.get_true_state(parts)
        else:
            action, outcome = episode.blue_outcomes[agent]
            if episode.actions_in_progress[agent]:
                shown = observation(cyborg["Shared.Enums"].TernaryEnum.IN_PROGRESS)
            else:
                # Every step ends with a Monitor. A Monitor that an agent chose shows no more.
                shown = observation(True) if outcome is None else outcome.copy()
                shown.data["action"] = action
            shown.combine_obs(_monitored(observation(), episode.state, agent))
            received = np.delete(messages, sender, axis=0).astype(np.bool_)
            shown.add_key_value("message", list(received))
        dictionaries.append(plain_observation(shown.data))
    return tuple(dictionaries)


def _monitored(shown: Any, state: Any, agent: str) -> Any:
    """Describe the events that `Monitor` moved to the lists of old events, as CybORG does."""
    parent = state.sessions[agent][0]
    for session in (*parent.children.values(), parent):
        hostname = session.hostname
        host = state.hosts[hostname]
        connections = [vars(event) for event in host.events.old_network_connections]
        described = connections + host.events.old_process_creation
        if described:
            shown.add_system_info(hostid=hostname, **host.get_state())
        for event in described:
            shown.add_process(hostid=hostname, **event)
    return shown
