"""The compiled simulator against CybORG: whole episodes, and the networks at every step."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from workflow_rl.compiled.simulator import CompiledSimulator
from workflow_rl.compiled.state import NONE
from workflow_rl.parity import BLUE_AGENTS, LockStep, cyborg_network, make_blue_agent, parity
from workflow_rl.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS


@pytest.fixture(scope="module")
def lock_step() -> LockStep:
    return LockStep(networks=True)


@pytest.mark.parametrize("blue", BLUE_AGENTS)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_episodes_and_networks_are_identical(
    lock_step: LockStep, red_agent: str, blue: str
) -> None:
    for seed in range(2):
        difference = lock_step.play(make_blue_agent(blue), red_agent, seed, blue)
        assert difference is None, str(difference)


def test_episodes_of_cyborg_as_published_are_identical() -> None:
    lock_step = LockStep("cyborg-stock", networks=True)
    for seed, red_agent in enumerate(RED_AGENTS):
        difference = lock_step.play(make_blue_agent("all-kinds"), red_agent, seed, "all-kinds")
        assert difference is None, str(difference)


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
            while process != NONE:
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


def test_the_command_reports_no_difference() -> None:
    result = CliRunner().invoke(parity, ["--episodes", "1", "--blue", "decoys", "--quiet"])
    assert result.exit_code == 0, result.output
    assert result.output.count("1 episodes, no difference") == 3


def test_the_command_shows_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    step = CompiledSimulator.step

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        obs, reward = step(self, action)
        return obs, reward - 0.1

    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)
    arguments = ["--episodes", "2", "--red-agent", "SleepAgent", "--blue", "sleep", "--quiet"]
    result = CliRunner().invoke(parity, [*arguments, "--seed", "7"])
    assert result.exit_code == 1
    assert "SleepAgent, blue sleep, seed 7: first difference in step 1" in result.output
    assert "* reward" in result.output
    assert "User4: processes" in result.output


def test_a_checkpoint_has_to_be_named() -> None:
    result = CliRunner().invoke(parity, ["--blue", "checkpoint"])
    assert result.exit_code == 2
    assert "--checkpoint" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("blue", BLUE_AGENTS)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_two_hundred_episodes_are_identical(lock_step: LockStep, red_agent: str, blue: str) -> None:
    for seed in range(2000, 2200):
        difference = lock_step.play(make_blue_agent(blue), red_agent, seed, blue)
        assert difference is None, str(difference)
