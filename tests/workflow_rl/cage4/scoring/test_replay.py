"""The command `replay` for CAGE-4: its page holds the evaluation's episode and the true state."""

from typing import Any

import pytest

from tests.cli import output_of
from tests.html_pages import assert_valid
from tests.workflow_rl.cage2.scoring.test_replay import data_of
from tests.workflow_rl.cage4.env.test_team_envs import random_team
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.costs import COSTS
from workflow_rl.cage4.scenario.scenario4 import (
    AGENT_HOSTS,
    AGENT_ZONES,
    ENV_ID,
    HOST_NAMES,
    RED_AGENTS,
)
from workflow_rl.cage4.scoring.protocol import evaluated_episodes
from workflow_rl.cage4.scoring.recording import (
    RED_KNOWS,
    Cost,
    HostState,
    Recording,
    Step,
    record_episodes,
)
from workflow_rl.cage4.scoring.replays import Cage4Replays
from workflow_rl.runs.export import export_policy

STEPS = 60
DECOYS = {"apache2", "tomcat", "haraka", "vsftpd"}


def test_the_page_holds_the_episode_of_the_evaluation(tmp_path):
    page = tmp_path / "replay.html"
    given = ["--seed", 3, "--episode", 1, "--max-steps", STEPS, "--output", page]
    said = output_of("replay", "rules", *given, "--against", "sleep", "--env", ENV_ID)
    assert_valid(page.read_text())
    rules, sleep = data_of(page)["recordings"]
    simulator = CompiledSimulator(RED_AGENTS[0], STEPS)
    *_, episode = evaluated_episodes(make_scripted_team("rules"), simulator, 2, 3)
    assert [step["reward"] for step in rules["steps"]] == episode.rewards
    assert rules["steps"][-1]["total"] == episode.total
    assert f"rules: total {episode.total}; sleep: total" in page.read_text()
    assert f"the team rules against {RED_AGENTS[0]}, 58 counted steps: total" in said
    assert f"total {episode.total}\n" in said
    assert rules["beginning"] == sleep["beginning"]
    assert rules["steps"] != sleep["steps"]


def frames(recording: Recording) -> list[dict[str, HostState]]:
    """The states of all hosts after each step, by name, from the changes."""
    states = {HOST_NAMES[host]: recording.states[number] for host, number in recording.beginning}
    found = []
    for step in recording.steps:
        states |= {HOST_NAMES[host]: recording.states[number] for host, number in step.changes}
        found.append(dict(states))
    return found


def shown(state: Any) -> dict[str, tuple[int, int, set[str], set[str]]]:
    """Of each host: sessions of users and of root, decoys, stopped services, by the true state."""
    hosts, sessions, *_ = state
    users: dict[str, list[str]] = {host[0]: [] for host in hosts}
    for agent, _, own in sessions:
        for session in own if agent.startswith("red") else ():
            users[session[2]].append(session[3])
    return {
        name: (
            sum(user != "root" for user in users[name]),
            users[name].count("root"),
            {service[0] for service in services} & DECOYS,
            {service[0] for service in services if not service[2]},
        )
        for name, _, _, services, *_ in hosts
    }


@pytest.mark.parametrize(("team", "seed"), [("bursts", 6), ("sleep", 5), ("rules", 6)])
def test_states_and_costs_are_the_simulators(team, seed):
    from workflow_rl.cage4.compiled.true_state import SERVICE_NAMES

    (recording,) = record_episodes([make_scripted_team(team)], RED_AGENTS[0], STEPS, seed, 0)
    simulator = CompiledSimulator(RED_AGENTS[0], STEPS, measures=True)
    player, measured = make_scripted_team(team), []
    simulator.start_stream(seed)
    observations = simulator.reset()
    player.reset(simulator.masks, 0)
    causes = set()
    for step, states in zip(recording.steps, frames(recording), strict=True):
        result = simulator.step(*player.act_in(simulator, observations))
        observations = result.observations
        measured.append(dict(zip(COSTS, simulator.costs.tolist(), strict=False)))
        paid = [sum(one.cost for one in step.costs if (one.cause == 3) is b) for b in (False, True)]
        assert paid == [-result.machine_reward, -result.action_cost]
        assert [deed.ticks for deed in step.blue] == simulator.busy_steps.tolist()
        assert step.phase == simulator.phase
        causes |= {one.cause for one in step.costs}
        expected = shown(simulator.true_state())
        assert states.keys() == expected.keys()
        for name, (user, root, decoys, stopped) in expected.items():
            own = states[name]
            named = [
                {one for kind, one in enumerate(SERVICE_NAMES) if bits >> kind & 1}
                for bits in (own.decoys, own.stopped)
            ]
            assert (own.user, own.root, *named) == (user, root, decoys, stopped)
            host = HOST_NAMES.index(name)
            reds = simulator.state["knows_address"][:, host].any()
            knows = RED_KNOWS[own.known]
            assert bool(own.known) == reds
            if root:
                assert knows in ("a user's session", "root's session")
            if team == "sleep":  # Blue removes no session, so that Red has what it remembers.
                assert knows != "a user's session" or user or root
                assert knows != "root's session" or root
        for agent, hosts in enumerate(AGENT_HOSTS):
            zones = observations[agent][1:-32].reshape(len(AGENT_ZONES[agent]), 59)
            process, connection = zones[:, 27:43].ravel(), zones[:, 43:].ravel()
            seen = [states[name].seen if name in states else 0 for name in hosts]
            assert seen == (connection + 2 * process).tolist()
    assert [step.measured for step in recording.steps] == measured
    assert len(recording.steps) == STEPS - 2
    assert causes >= {"bursts": {0, 1, 3}, "sleep": {0, 2}, "rules": {3}}[team]


def step_of(*costs: Cost) -> Step:
    return Step(0, 0, 0, (), (), costs, (), (), (), {})


def test_moments_join_what_costs_again_and_again():
    failed, restored = Cost(0, 5, 2, (90,)), Cost(3, 5, 1, (90,))
    pauses = [step_of()] * 10
    steps = (step_of(failed), step_of(restored, failed), *pauses, step_of(failed))
    recording = Recording((), (), (), steps)
    found = [(one.cause, one.first, one.last, one.cost) for one in recording.moments()]
    work, restore = "Greens' failed work in Public access", "Restore in Public access"
    assert found == [(work, 1, 2, 4), (work, 13, 13, 2), (restore, 2, 2, 1)]


def test_a_trained_team_plays_as_evaluate_plays_it(tmp_path):
    path = tmp_path / "team.npz"
    environment = Cage4(observation="belief", messages="alerts")
    export_policy(random_team(environment).parameters, environment, "npz", path)
    page = tmp_path / "replay.html"
    # The file names the environment: the default, CAGE-2, is not asked.
    output_of("replay", path, "--stochastic", "--max-steps", STEPS, "--output", page)
    team = SingleTeam(Cage4Replays().load(path, None, greedy=False).make(1))
    (episode,) = evaluated_episodes(team, CompiledSimulator(RED_AGENTS[0], STEPS), 1, 0)
    (recording,) = data_of(page)["recordings"]
    assert [step["reward"] for step in recording["steps"]] == episode.rewards
    assert recording["agent"] == f"{tmp_path.name}/team.npz"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "there is no checkpoint at nobody"),
        (["rules", "--against", "nobody"], "for --against: there is no checkpoint at nobody"),
        (["rules", "--against", "CHAMPION"], "was trained on workflow_rl/CAGE2-v0, not on CAGE-4"),
        (["rules", "--red-agent", "B_lineAgent"], "for --red-agent: 'B_lineAgent' is no"),
        (["rules", "--max-steps", "2"], "for '--max-steps': "),
        (["CHAMPION", "--red-agent", "DiscoveryFSRed"], "for --red-agent: "),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, arguments, message):
    from workflow_rl.cage2.guest import Cage2Guest

    monkeypatch.chdir(tmp_path)
    champion = str(Cage2Guest.released["champion"])
    words = [champion if one == "CHAMPION" else one for one in arguments]
    said = output_of("replay", *words, "--env", ENV_ID, code=2)
    assert said.count("Error: ") == 1
    assert message in " ".join(said.split())
    assert not list(tmp_path.iterdir())
