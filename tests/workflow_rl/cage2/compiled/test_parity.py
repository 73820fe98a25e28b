"""The compiled simulator against CybORG: whole episodes, and the networks at every step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.workflow_rl.cage2.compiled.injected_faults import InjectsFaults
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.cage2.agent.scripted import ScriptedAgent
from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.compiled.state import NO_PROCESS, SIZES
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.parity import (
    BLUE_AGENTS,
    HOARDERS,
    LockStep,
    WorkShare,
    first_differences,
    make_blue_agent,
    shares_of,
)
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS
from workflow_rl.commands.parity import parity
from workflow_rl.runs.checkpoint import Checkpoint, TrainingState, save_checkpoint
from workflow_rl.runs.config import TrainConfig

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def lock_step() -> LockStep:
    return LockStep(networks=True)


@pytest.mark.parametrize(("seed", "blue"), list(enumerate(BLUE_AGENTS)))
def test_episodes_and_networks_are_identical(lock_step: LockStep, seed: int, blue: str) -> None:
    red_agent = RED_AGENTS[seed % 3]
    difference = lock_step.play(make_blue_agent(blue), red_agent, seed, blue)
    assert difference is None, str(difference)


def test_episodes_of_cyborg_as_published_are_identical() -> None:
    lock_step = LockStep("published", networks=True)
    for seed, red_agent in enumerate(RED_AGENTS):
        difference = lock_step.play(make_blue_agent("all-kinds"), red_agent, seed, "all-kinds")
        assert difference is None, str(difference)


@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_sessions_are_those_of_cyborgs_true_state(red_agent: str) -> None:
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


# In these episodes a host has the address that a process of Defender is bound to.
@pytest.mark.parametrize("seed", [1097, 3082, 7425, 160431])
def test_an_address_that_a_process_is_bound_to_is_listed_first(
    lock_step: LockStep, seed: int
) -> None:
    assert lock_step.play(make_blue_agent("sleep"), "RedMeanderAgent", seed) is None


# In these episodes a PID drawn for a session is taken, or is 0, and is drawn again.
@pytest.mark.parametrize("seed", [110, 139, 469, 800])
def test_pids_are_drawn_again_when_cyborg_does(lock_step: LockStep, seed: int) -> None:
    assert lock_step.play(make_blue_agent("all-kinds"), "RedMeanderAgent", seed) is None


class SetsUpDecoysAndRemoves:
    """Four decoys on a host, then removes what was caught on it: see the test."""

    kinds = ("DecoyVsftpd", "DecoyVsftpd", "DecoyHarakaSMPT", "DecoyTomcat", "Remove")

    def reset(self, seed: int) -> None:
        self.step = -1

    def act(self, obs: Any, info: Any = None) -> int:
        self.step += 1
        return ACTION_NAMES.index(f"{self.kinds[self.step % len(self.kinds)]} Op_Host1")


def test_decoys_with_a_pid_that_was_caught_are_stopped_and_start_again(
    lock_step: LockStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By chance once in thousands of episodes: a decoy gets the PID of a process caught before."""
    env, compiled = lock_step._env, lock_step._compiled
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
    # One round: what is listed as a service has started again, under a PID the list does not have.
    monkeypatch.setattr(env, "max_steps", 5)
    assert lock_step.play(SetsUpDecoysAndRemoves(), "SleepAgent", 5) is None
    network = cyborg_network(env)
    listed = set(network["Op_Host1: services"].values())
    running = network["Op_Host1: processes"][-3:]
    assert [ports for *_, ports in running] == [[80], [25], [443]]
    assert len(listed) == 3
    assert not listed & {pid for pid, *_ in running}
    # From the second round on, nothing is listed with the PID that it runs under.
    monkeypatch.setattr(env, "max_steps", 20)
    difference = lock_step.play(SetsUpDecoysAndRemoves(), "SleepAgent", 5)
    assert difference is None, str(difference)
    assert not any(ports == [80] for *_, ports in cyborg_network(env)["Op_Host1: processes"])


class SetsUpDecoysOnEnterprise0:
    """More and more decoys on a host that B_line scans again and again; restores it at the end."""

    def reset(self, seed: int) -> None:
        self.step = 0

    def act(self, obs: Any, info: Any = None) -> int:
        self.step += 1
        kind = "DecoyVsftpd" if self.step < 95 else "Restore"
        return ACTION_NAMES.index(f"{kind} Enterprise0")


@pytest.mark.parametrize("seed", [87, 413, 1946])
def test_a_host_with_hundreds_of_ports_in_use(lock_step: LockStep, seed: int) -> None:
    difference = lock_step.play(SetsUpDecoysOnEnterprise0(), "B_lineAgent", seed)
    assert difference is None, str(difference)
    assert lock_step._compiled.state["busy_host"] == HOSTS.index("Enterprise0")


# --- Faults are found ----------------------------------------------------------------------------


def test_another_seed_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lock_step = LockStep()
    reset = CompiledSimulator.reset
    monkeypatch.setattr(CompiledSimulator, "reset", lambda self, seed, red: reset(self, 99, red))
    difference = lock_step.play(make_blue_agent("sleep"), "B_lineAgent", 3, "sleep")
    assert difference is not None
    # The reset looks the same; the first scan names other addresses.
    assert difference.step == 1
    assert list(difference.what) == ["red_action"]


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
def test_a_hidden_difference_is_found(
    lock_step: LockStep, monkeypatch: pytest.MonkeyPatch, field: str, what: str
) -> None:
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
    assert difference is not None
    assert difference.step == 30
    assert any(what in name for name in difference.what)


def test_a_compiled_simulator_that_cannot_go_on_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    def step_that_fails(self: CompiledSimulator, action: int) -> Any:
        raise RuntimeError("too many processes")

    monkeypatch.setattr(CompiledSimulator, "step", step_that_fails)
    difference = LockStep().play(make_blue_agent("sleep"), "B_lineAgent", 3)
    assert difference is not None
    assert difference.step == 1
    assert difference.what["error"] == (None, "too many processes")


# --- The command ---------------------------------------------------------------------------------


def run(*arguments: str | int | Path, n_workers: int = 1) -> Result:
    """The command; with one worker it plays in this process, where a test can change things."""
    return CliRunner().invoke(
        parity, [*map(str, arguments), "--quiet", "--n-workers", str(n_workers)]
    )


def inject_fault(monkeypatch: pytest.MonkeyPatch, field: str | None = None) -> None:
    """Into what the last step shows, or into a hidden field."""
    step = CompiledSimulator.step

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        obs, reward = step(self, action)
        if field is None:
            return obs, reward - 0.1
        self.state[field] = 1
        return obs, reward

    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)


def test_the_command_reports_no_difference() -> None:
    result = run("--episodes", 1, "--blue", "decoys", "--blue", "random", "--max-steps", 20)
    assert result.exit_code == 0, result.output
    assert result.output.count(": 1 episodes, networks compared in 0: no difference") == 12
    assert "12 episodes of 20 steps from seed 0, networks compared in 0: 0 of 12 pairs" in (
        result.output
    )


def test_the_command_counts_the_episodes_whose_networks_were_compared() -> None:
    pair = ("--blue", "sleep", "--red-agent", "SleepAgent", "--red-agent", "possible-action")
    result = run("--episodes", 3, "--network-episodes", 2, *pair, "--max-steps", 5)
    assert result.exit_code == 0, result.output
    assert "6 episodes of 5 steps from seed 0, networks compared in 4: 0 of 2 pairs" in (
        result.output
    )


def test_the_command_shows_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    inject_fault(monkeypatch)
    result = run("--episodes", 2, "--red-agent", "SleepAgent", "--blue", "sleep", "--seed", 7)
    assert result.exit_code == 1
    assert "SleepAgent, blue sleep, seed 7: first difference in step 1" in result.output
    assert "* reward" in result.output
    assert "User4: processes" in result.output
    assert "\n1 episodes of 100 steps from seed 7, networks compared in 0: 1 of 1 pairs" in (
        result.output
    )


def test_a_difference_of_one_pair_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    step = CompiledSimulator.step

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        obs, reward = step(self, action)
        return obs, reward - 0.1 * (action != 0)

    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)
    arguments = ("--episodes", 3, "--red-agent", "SleepAgent", "--max-steps", 10)
    result = run(*arguments, "--blue", "random", "--blue", "sleep")
    assert result.exit_code == 1
    assert "blue random, seed 0: first difference" in result.output
    assert "blue sleep: 3 episodes, networks compared in 0: no difference" in result.output
    assert "\n4 episodes of 10 steps from seed 0" in result.output


@pytest.mark.parametrize(("n_networks", "exit_code"), [(0, 0), (1, 1)])
def test_networks_are_compared_in_the_first_episodes(
    monkeypatch: pytest.MonkeyPatch, n_networks: int, exit_code: int
) -> None:
    # Nothing that SleepAgent does shows it.
    inject_fault(monkeypatch, "has_malware")
    arguments = ("--episodes", 2, "--red-agent", "SleepAgent", "--blue", "sleep", "--max-steps", 5)
    result = run(*arguments, "--network-episodes", n_networks)
    assert result.exit_code == exit_code, result.output
    assert ("* Defender: red files" in result.output) == bool(n_networks)


def test_shares_hold_every_episode_once() -> None:
    agents = {blue: make_blue_agent(blue) for blue in ("sleep", "random")}
    shares = list(shares_of(dict.fromkeys(RED_AGENTS), agents, range(7, 237), 60))
    for red_agent in RED_AGENTS:
        for blue in agents:
            mine = [share for share in shares if (share.red_agent, share.blue) == (red_agent, blue)]
            assert [seed for share in mine for seed in share.seeds] == list(range(7, 237))
            assert [seed for share in mine if share.networks for seed in share.seeds] == list(
                range(7, 67)
            )
    assert max(len(share.seeds) for share in shares) == 50


def test_more_workers_report_the_same() -> None:
    arguments = ("--episodes", 60, "--network-episodes", 2, "--max-steps", 5, "--blue", "random")
    arguments += ("--red-agent", "B_lineAgent")
    one, two = (run(*arguments, n_workers=n_workers) for n_workers in (1, 2))
    assert one.exit_code == two.exit_code == 0, two.output
    seconds = one.output.rindex("(")
    assert one.output[:seconds] == two.output[:seconds]
    assert one.output.count("no difference") == 1


def test_differences_in_other_processes_are_reported() -> None:
    agents = {"faulty": InjectsFaults()}
    shares: Sequence[WorkShare] = list(shares_of({"SleepAgent": None}, agents, range(49, 53), 4))
    shares = [share._replace(seeds=share.seeds[i : i + 2]) for share in shares for i in (0, 2)]
    first, second = first_differences(shares, "cyborg", 3, 2)
    assert first is None
    assert second is not None
    assert (second.seed, second.step) == (51, 1)
    assert second.what == {"Defender: red files": (False, True)}


def test_a_trained_agent_plays_as_well(tmp_path: Path) -> None:
    config = TrainConfig("async", n_envs=2)
    agent = PPOAgent(config.settings, 52, Categorical(len(ACTION_NAMES)), seed=3)
    checkpoint = Checkpoint(config.to_dict(), agent.state_dict(), TrainingState())
    save_checkpoint(tmp_path / "checkpoint.pt", checkpoint)
    options = ("--episodes", 1, "--max-steps", 30, "--network-episodes", 1)
    result = run("--checkpoint", tmp_path, "--red-agent", "B_lineAgent", *options)
    assert result.exit_code == 0, result.output
    assert "0 of 8 pairs of agents differ" in result.output
    alone = run("--blue", "checkpoint", "--checkpoint", tmp_path / "checkpoint.pt", *options)
    assert alone.exit_code == 0, alone.output
    assert alone.output.count("blue checkpoint: 1 episodes") == 6


def test_a_trained_red_agent_has_to_be_there(tmp_path: Path) -> None:
    options = ("--red-agent", "checkpoint", "--episodes", 1)
    for given, message in (
        ((), "give a run folder or file by --red-checkpoint"),
        (("--red-checkpoint", tmp_path / "none"), "there is no such folder or policy file"),
    ):
        result = run(*options, *given)
        assert result.exit_code == 2
        assert message in result.output


def test_a_checkpoint_has_to_be_named() -> None:
    result = run("--blue", "checkpoint")
    assert result.exit_code == 2
    assert "--checkpoint" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("blue", BLUE_AGENTS)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_two_hundred_episodes_are_identical(lock_step: LockStep, red_agent: str, blue: str) -> None:
    for seed in range(2000, 2200):
        difference = lock_step.play(make_blue_agent(blue), red_agent, seed, blue)
        assert difference is None, str(difference)


@pytest.mark.slow
@pytest.mark.parametrize("red_agent", RED_AGENTS)
@pytest.mark.parametrize("blue", HOARDERS)
def test_a_thousand_steps_of_decoys_alone(blue: str, red_agent: str) -> None:
    lock_step = LockStep(max_steps=1000)
    for seed in range(3):
        assert lock_step.play(make_blue_agent(blue), red_agent, seed, blue) is None
        # An episode of the ordinary record's could not have gone on.
        added = int(lock_step._compiled.state["n_processes"])
        assert blue == "decoys-only" or added > 2 * SIZES[0]
