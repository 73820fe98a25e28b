"""The compiled simulator against CybORG: whole episodes, and the networks at every step."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli import output_of
from tests.workflow_rl.cage2.compiled.injected_faults import InjectsFaults
from tests.workflow_rl.cage2.lock_step import LockStep
from tests.workflow_rl.cage2.scoring.evaluations import save_agent
from workflow_rl.cage.comparison import comparisons
from workflow_rl.cage2.agent.scripted import ScriptedAgent, ScriptedBlue, make_blue_agent
from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.compiled.state import NO_PROCESS
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.parity import Cage2Comparison
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def lock_step() -> LockStep:
    return LockStep(networks=True)


@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_sessions_are_those_of_cyborgs_true_state(red_agent):
    """By host, PID and privilege, at every step, of an episode in which Red takes hosts."""
    env = Cage2Env(red_agent, simulator="published")
    controller = env._simulator._controller
    agent = ScriptedAgent(make_blue_agent("mixed-decoys"))
    agent.reset(0)
    obs, info = env.reset(seed=4)
    n_red_sessions = set()
    for _ in range(60):
        obs, _, _, _, info = env.step(agent.act(obs, info))
        truth = controller.state.get_true_state({name: {"Sessions": "All"} for name in HOSTS})
        network = cyborg_network(env)
        for name in HOSTS:
            shown = {("Red", *session) for session in network[f"{name}: red sessions"]}
            shown |= set(network[f"{name}: other sessions"])
            true = {
                (session["Agent"], session["PID"], session["Username"] in ("root", "SYSTEM"))
                for session in truth.data.get(name, {}).get("Sessions", ())
            }
            assert shown == true, name
        n_red_sessions.add(sum(len(network[f"{name}: red sessions"]) for name in HOSTS))
    assert len(n_red_sessions) > (0 if red_agent == "SleepAgent" else 2)


class SetsUpDecoysAndRemoves(ScriptedBlue):
    """Four decoys on a host, then removes what was caught on it: see the test."""

    kinds = ("DecoyVsftpd", "DecoyVsftpd", "DecoyHarakaSMPT", "DecoyTomcat", "Remove")

    def memory(self, seed: int) -> Any:
        return itertools.cycle(self.kinds)

    def choose(self, memory: Any, record: Any) -> int:
        return ACTION_NAMES.index(f"{next(memory)} Op_Host1")


def test_decoys_with_a_pid_that_was_caught_are_stopped_and_start_again(lock_step, monkeypatch):
    """By chance once in thousands of episodes: a decoy gets the PID of a process caught before."""
    cyborg, side = lock_step.sides()
    env, compiled = cyborg.env, side.simulator
    host = HOSTS.index("Op_Host1")
    step = compiled.step

    def step_after_catching(action: int) -> Any:
        result = step(action)
        process = int(compiled.state["first_process"][host])
        if ACTION_NAMES[action].startswith("DecoyTomcat"):
            while process != NO_PROCESS:
                row, n = compiled.state["processes"][process], int(compiled.state["n_suspicious"])
                compiled.state["suspicious_host"][n] = host
                compiled.state["suspicious_pid"][n] = row["pid"]
                compiled.state["n_suspicious"] += 1
                env._simulator._state.sessions["Blue"][0].add_sus_pids(HOSTS[host], int(row["pid"]))
                process = int(row["next"])
        return result

    monkeypatch.setattr(compiled, "step", step_after_catching)
    blue = SetsUpDecoysAndRemoves("decoys", Scenario.scenario2())
    # One round: what is listed as a service has started again, under a PID the list does not have.
    monkeypatch.setattr(lock_step, "max_steps", 5)
    assert lock_step.play(blue, "SleepAgent", 5) is None
    network = cyborg_network(env)
    listed = set(network["Op_Host1: services"].values())
    running = network["Op_Host1: processes"][-3:]
    assert [ports for *_, ports in running] == [[80], [25], [443]]
    assert len(listed) == 3
    assert not listed & {pid for pid, *_ in running}
    # From the second round on, nothing is listed with the PID that it runs under.
    monkeypatch.setattr(lock_step, "max_steps", 20)
    difference = lock_step.play(blue, "SleepAgent", 5)
    assert difference is None, str(difference)
    assert not any(ports == [80] for *_, ports in cyborg_network(env)["Op_Host1: processes"])


# --- Faults are found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("n_suspicious", "PIDs caught"),
        ("known_ports", "ports Red knows"),
        ("has_malware", "red files"),
        ("mt_index", "random words"),
        ("knows_ot_service", "OT service"),
    ],
)
def test_a_hidden_difference_is_found(lock_step, monkeypatch, field, what):
    step, n_steps = CompiledSimulator.step, 0

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        nonlocal n_steps
        result = step(self, action)
        n_steps += 1
        if n_steps == 30:
            # Any change: of a number, of a mask, of a truth value.
            self.state[field] = 0 if self.state[field].any() else 1
        return result

    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)
    difference = lock_step.play(make_blue_agent("sleep"), "B_lineAgent", 3)
    assert difference.step == 30
    assert any(what in name for name in difference.what)


# --- The command ---------------------------------------------------------------------------------


def run(*arguments: object, code: int = 0) -> str:
    """Return what the command says, which plays in this process, where a test can change things."""
    return output_of("parity", *arguments, "--quiet", "--n-workers", 1, code=code)


def test_the_command_says_how_many_episodes_do_not_differ():
    blues = ("--blue", "decoys", "--blue", "random")
    reds = ("--red-agent", "SleepAgent", "--red-agent", "possible-action")
    said = run("--episodes", 3, "--network-episodes", 2, *blues, *reds, "--max-steps", 5)
    assert said.count(": 3 episodes, networks compared in 2: no difference") == 4
    assert "12 episodes of 5 steps from seed 0, networks compared in 8: 0 of 4 pairs" in said


def test_the_command_shows_the_first_difference_of_each_pair(monkeypatch):
    step = CompiledSimulator.step

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        obs, reward = step(self, action)
        return obs, reward - 0.1 * (action != 0)

    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)
    arguments = ("--episodes", 3, "--red-agent", "SleepAgent", "--max-steps", 10)
    said = run(*arguments, "--blue", "random", "--blue", "sleep", code=1)
    assert "SleepAgent, blue random, seed 0: first difference in step 1\n" in said
    assert "\n* reward  " in said
    assert "\n  User4: processes  " in said
    assert "blue sleep: 3 episodes, networks compared in 0: no difference" in said
    # The episodes after a difference are not played.
    assert "\n4 episodes of 10 steps from seed 0, networks compared in 0: 1 of 2 pairs" in said


def comparison_of(agents: dict[str, Any], reds: Sequence[str], max_steps: int) -> Cage2Comparison:
    reds_by_name = dict.fromkeys(reds)
    return Cage2Comparison("cyborg", max_steps, Scenario.scenario2(), agents, reds_by_name)


def test_shares_hold_every_episode_once():
    agents = {blue: make_blue_agent(blue) for blue in ("sleep", "random")}
    shares = [*comparison_of(agents, RED_AGENTS, 100).shares(range(7, 237), 60)]
    for pair in itertools.product(agents, RED_AGENTS):
        for network_every, seeds in ((1, range(7, 67)), (0, range(67, 237))):
            mine = [share for share in shares if share.network_every == network_every]
            episodes = itertools.chain.from_iterable(share.episodes for share in mine)
            assert [episode.seed for episode in episodes if episode[:2] == pair] == [*seeds]
    assert max(len(share.episodes) for share in shares) == 50


def test_differences_in_other_processes_are_reported():
    faulty = InjectsFaults("faulty", Scenario.scenario2())
    challenge = comparison_of({"faulty": faulty}, ["SleepAgent"], 3)
    (share,) = challenge.shares(range(49, 53), 4)
    halves = [share._replace(episodes=share.episodes[i : i + 2]) for i in (0, 2)]
    first, second = comparisons(challenge, halves, 2)
    assert [one.difference for one in first] == ["", ""]
    lines = second[-1].difference.splitlines()
    assert lines[0] == "SleepAgent, blue faulty, seed 51: first difference in step 1"
    assert lines[2].split() == ["*", "Defender:", "red", "files", "False", "True"]
    assert lines[3] == "the networks after that step (* differs)"


def test_a_trained_agent_plays_as_well(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_agent(path)
    options = ("--episodes", 1, "--max-steps", 30, "--network-episodes", 1)
    said = run("--checkpoint", tmp_path, "--red-agent", "B_lineAgent", *options)
    assert "0 of 8 pairs of agents differ" in said
    alone = run("--blue", "checkpoint", "--checkpoint", path, *options)
    assert alone.count("blue checkpoint: 1 episodes") == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--blue", "checkpoint"), "give a run folder or file by --checkpoint"),
        (("--red-agent", "checkpoint"), "give a run folder or file by --red-checkpoint"),
        (("--red-checkpoint", "none"), "there is no such folder or policy file"),
    ],
)
def test_a_checkpoint_has_to_be_there(given, message):
    assert message in run(*given, "--episodes", 1, code=2)
