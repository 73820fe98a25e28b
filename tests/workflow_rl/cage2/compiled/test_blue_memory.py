"""What Blue remembers, against what really happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from workflow_rl.cage2.action_sets import useful_actions
from workflow_rl.cage2.compiled.blue_memory import (
    MEMORY,
    N_SHOWN,
    WORTH_A_DECOY,
    begin_memories,
    remember_steps,
)
from workflow_rl.cage2.compiled.simulator import Simulator
from workflow_rl.cage2.compiled.state import KIND
from workflow_rl.cage2.compiled.state import NONE as NO_PROCESS
from workflow_rl.cage2.compiled.tables import (
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    EXPLOIT,
    FALSE,
    N_DECOYS,
    N_HOSTS,
    TRUE,
)
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

SLEEP = 0
MEANDER = RED_AGENTS.index("RedMeanderAgent")
RESTORE = np.array([ACTION_NAMES.index(f"Restore {host}") for host in HOSTS])
LISTS = ("meander_scanned", "meander_exploited", "meander_escalated", "meander_mapped")


class Remembering:
    """N envs of the compiled simulator, and what Blue remembers of each."""

    def __init__(self, n_envs: int, red_agent: int, seed: int = 0) -> None:
        self.simulator = Simulator(n_envs)
        self.simulator.reset(np.arange(n_envs) + seed, red_agent)
        self.memories = np.zeros(n_envs, MEMORY)
        self.shown = np.empty((n_envs, N_SHOWN), np.uint8)
        self._all = np.arange(n_envs)
        begin_memories(self.memories, self._all, self.simulator.obs.copy(), self.shown)

    def step(self, actions: NDArray[np.int64]) -> NDArray[np.uint8]:
        obs = self.simulator.step(actions)[0].copy()
        remember_steps(self.memories, self._all, actions, obs, self.shown)
        return obs


def masks_of_decoys(state: Any) -> list[int]:
    """Those in place on every host."""
    masks = [0] * N_HOSTS
    for host in range(N_HOSTS):
        process = state["first_process"][host]
        while process != NO_PROCESS:
            kind = int(state["processes"][process]["kind"]) & KIND
            if kind < N_DECOYS:
                masks[host] |= 1 << kind
            process = state["processes"][process]["next"]
    return masks


def restoring(obs: NDArray[np.uint8], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Restore where an exploit was seen; otherwise what is given."""
    exploited = obs.reshape(-1, N_HOSTS, 4)[:, :, 1]
    return np.where(exploited.any(axis=1), RESTORE[exploited.argmax(axis=1)], others)


@pytest.mark.parametrize("red_agent", range(3))
def test_decoys_are_remembered_whoever_attacks(red_agent: int) -> None:
    random = np.random.default_rng(red_agent)
    envs = Remembering(20, red_agent)
    # All of Blue's actions, and so decoys that fail too.
    for _ in range(60):
        envs.step(random.integers(len(ACTION_NAMES), size=20))
        for state, memory in zip(envs.simulator.states, envs.memories, strict=True):
            assert masks_of_decoys(state) == memory["decoys"].tolist()


def test_meanders_program_is_followed() -> None:
    """By what Blue sees and does alone."""
    random = np.random.default_rng(0)
    envs = Remembering(200, MEANDER)
    obs = np.zeros((200, 52), np.uint8)
    right = dict.fromkeys((*LISTS, "known_addresses", "known_hostnames"), 0.0)
    for _ in range(60):
        obs = envs.step(restoring(obs, random.choice(useful_actions(), 200)))
        for name in right:
            right[name] += np.mean(envs.simulator.states[name] == envs.memories[name]) / 60
    assert min(right.values()) > 0.75, right


def test_without_a_doubtful_step_the_program_is_known() -> None:
    """Red's first steps: all there is to see is where it scans."""
    envs = Remembering(50, MEANDER, seed=100)
    for step in range(7):
        targets, kinds = envs.memories["next_targets"].copy(), envs.memories["next_kind"].copy()
        envs.step(np.full(50, SLEEP))
        states = envs.simulator.states
        assert (states["red_kind"] == kinds).all()
        if states["red_kind"][0] != DISCOVER_SYSTEMS:
            assert (targets >> states["red_target"] & 1).all()
        if step < 6:
            assert (states["red_kind"] == (DISCOVER_SERVICES if step else DISCOVER_SYSTEMS)).all()
            for name in LISTS:
                assert (states[name] == envs.memories[name]).all(), (step, name)
    assert (envs.memories["n_misfits"] == 0).all()


def test_another_red_agent_does_not_fit() -> None:
    envs = Remembering(50, RED_AGENTS.index("B_lineAgent"))
    for _ in range(15):
        envs.step(np.full(50, SLEEP))
    assert (envs.memories["n_misfits"] > 0).all()


def test_a_decoy_set_up_after_the_scan_fools_nobody() -> None:
    """Red exploits what it found when it scanned."""
    host, decoy = map(int, WORTH_A_DECOY[-1])
    memories = np.zeros(1, MEMORY)
    shown = np.empty((1, N_SHOWN), np.uint8)
    quiet = np.zeros((1, 52), np.uint8)
    begin_memories(memories, np.array([0]), quiet, shown)
    name = next(name for name in ACTION_NAMES if name.startswith("DecoyVsftpd User4"))
    assert HOSTS[host] == "User4"
    scan = quiet.copy()
    scan[0, 4 * host] = 1
    # Red looks for systems, then scans its own host and User4, which has no decoy yet.
    for action, obs in ((SLEEP, quiet), (SLEEP, scan), (ACTION_NAMES.index(name), quiet)):
        remember_steps(memories, np.array([0]), np.array([action]), obs, shown)
    (memory,) = memories
    assert memory["meander_scanned"] >> host & 1
    assert memory["decoys"][host] == 1 << decoy
    assert memory["decoys_when_scanned"][host] == 0
    at = 52 + 2 * (len(WORTH_A_DECOY) - 1)
    assert shown[0, at : at + 2].tolist() == [1, 0]


def test_restoring_a_host_clears_it() -> None:
    envs = Remembering(100, MEANDER, seed=5)
    for _ in range(25):
        envs.step(np.full(100, SLEEP))
    owned = envs.memories["owned"].copy()
    first = np.array([(mask & -mask).bit_length() - 1 for mask in owned.tolist()])
    assert (owned != 0).mean() > 0.9
    envs.step(np.where(owned != 0, RESTORE[first], SLEEP))
    still = envs.memories["owned"][owned != 0] >> first[owned != 0] & 1
    # Unless Red came back in the same step.
    assert still.mean() < 0.1


def test_it_shows_bits_and_the_observation_first() -> None:
    random = np.random.default_rng(3)
    envs = Remembering(10, MEANDER)
    for _ in range(30):
        obs = envs.step(random.choice(useful_actions(), 10))
        assert (envs.shown[:, :52] == obs).all()
        assert set(np.unique(envs.shown)) <= {0, 1}


def test_red_succeeds_where_blue_saw_an_exploit() -> None:
    envs = Remembering(100, MEANDER, seed=9)
    n_known = 0
    for _ in range(12):
        obs = envs.step(np.full(100, SLEEP))
        states, memories = envs.simulator.states, envs.memories
        exploited = obs.reshape(100, N_HOSTS, 4)[:, :, 1].any(axis=1)
        known = exploited & (memories["n_misfits"] == 0)
        assert (memories["red_kind"][known] == EXPLOIT).all()
        n_known += known.sum()
        wrong = memories["red_success"][known] != states["red_success"][known]
        assert wrong.sum() <= 0.1 * known.sum()
        assert set(memories["red_success"]) <= {TRUE, FALSE}
    assert n_known > 100
