"""Make the HTML page of a recorded episode, and compare the episode with CybORG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from workflow_rl.cage.comparison import ComparedEpisode, compare_episode
from workflow_rl.cage.replay_frame import framed
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.tables import Tables
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.protocol import cell_spec
from workflow_rl.cage2.scoring.recording import Recording

PAGES = "workflow_rl.cage2.scoring.pages"


class ReplayCheck(NamedTuple):
    """The result of a comparison of a recording with CybORG. is_same: None if there was none."""

    is_same: bool | None
    text: str


class _Repeated:
    """`comparison.Players` that repeat Blue's and Red's actions of a recorded episode."""

    def __init__(self, blues: Sequence[int], reds: Sequence[int | None]) -> None:
        self._blues, self._reds = blues, reds

    def reset(self, episode: ComparedEpisode, first: Any) -> None:
        self._left = zip(self._blues, self._reds, strict=True)

    def choose(self, first: Any) -> tuple[int, int | None]:
        return next(self._left)


def compare_with_cyborg(
    recording: Recording, networks: bool = True, scenario: Scenario | None = None
) -> ReplayCheck:
    """Play the episode also in CybORG, if it is installed, and compare every step.

    Observations, rewards, actions and successes are compared. If Red is a trained agent, Red's
    observations are compared, too. networks: whether to compare the networks, too, which takes most
    of the time. scenario: the episode's scenario, by default Scenario 2."""
    from workflow_rl.cage2.cyborg.simulators import simulator_version

    scenario = scenario or Scenario.scenario2()
    version = simulator_version("cyborg")
    if scenario.is_cage1:
        return ReplayCheck(None, f"Played by the rules of CAGE-1, which {version} does not know.")
    steps = recording.steps
    from_outside = all(step.red_choice.decision is not None for step in steps)
    if not from_outside and recording.drawn not in RED_AGENTS:
        return ReplayCheck(None, f"Not compared with {version}: the red agent is the user's own.")
    try:
        from workflow_rl.cage2.parity import both_sides

        simulators = both_sides("cyborg", recording.max_steps, scenario, from_outside)
    except ImportError as error:
        return ReplayCheck(None, f"Not compared with CybORG, which is not installed ({error}).")
    spec = cell_spec(recording.seed, recording.max_steps, recording.red_agent, recording.episode)
    episode = ComparedEpisode(recording.agent, recording.drawn, spec.env_seed, recording.max_steps)
    blues = [scenario.action_names.index(step.blue_action) for step in steps]
    reds: list[int | None] = [None] * len(steps)
    if from_outside:
        reds = [scenario.red_action_names.index(step.red_choice.action) for step in steps]
    repeated = _Repeated(blues, reds)
    _, difference, *_ = compare_episode(*simulators, repeated, episode, int(networks))
    if difference is not None:
        return ReplayCheck(False, f"Differs from {version} in step {difference.step}.")
    what = "the networks included" if networks else "in observation, reward, actions and successes"
    return ReplayCheck(True, f"Every step was compared with {version} and is equal, {what}.")


def replay_page(
    recordings: Sequence[Recording],
    compared: Sequence[ReplayCheck],
    scenario: Scenario | None = None,
) -> str:
    """Return the page of an episode of one or two agents. scenario: by default Scenario 2."""
    scenario = scenario or Scenario.scenario2()
    first = recordings[0]
    agents = " and ".join(recording.agent for recording in recordings)
    returns = "; ".join(
        f"{recording.agent}, {recording.choice} actions: return {recording.episode_return:.1f}"
        for recording in recordings
    )
    about = (
        f"{returns}. Episode {first.episode} of the {first.max_steps}-step cell of an evaluation "
        f"with seed {first.seed}."
    )
    if len(recordings) > 1:
        about += " Chance is the same for both until their actions differ."
    if not scenario.is_scenario2:
        about += f" The network: {scenario}."
    return framed(
        PAGES,
        f"{agents} against {first.opponent}",
        about,
        " ".join(dict.fromkeys(comparison.text for comparison in compared)),
        {
            **_network_of(scenario),
            "recordings": recordings,
            "moments_shown": 3 if len(recordings) > 1 else 5,
        },
    )


def _network_of(scenario: Scenario) -> dict[str, Any]:
    tables, hosts = tables_of(scenario), scenario.hosts
    leads = []
    for host, explored in enumerate(tables.of["explored_addresses"].tolist()):
        for target in range(len(hosts)):
            if target != host and ((explored >> target) & 1):
                leads.append((host, target))
    names = [tuple(tables.subnets)[number] for number in _on_reds_way(tables, leads)]
    return {
        "hosts": hosts,
        "red_host": scenario.red_host,
        "red_actions": scenario.red_action_names,
        "subnets": {name: scenario.subnets[name] for name in names},
        "leads": [(hosts[host], hosts[target]) for host, target in leads],
    }


def _on_reds_way(tables: Tables, leads: Sequence[tuple[int, int]]) -> list[int]:
    """Return the numbers of all subnets, in the order in which Red can reach them.

    leads: pairs of hosts. On the first host of a pair, Red finds the address of the second host."""
    subnet_of = tables.of["subnet"].tolist()
    order = [subnet_of[int(tables.of["red_host"])]]
    # The list grows during the loop, until all its subnets lead only to subnets in the list.
    for subnet in order:
        for host, target in leads:
            if subnet_of[host] == subnet and subnet_of[target] not in order:
                order.append(subnet_of[target])
    return order + [number for number in range(len(tables.subnets)) if number not in order]
