"""The steps that an agent remembers, in files: the same when they are read, few and small."""

from __future__ import annotations

import math
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiny_runs import all_of
from tests.workflow_rl.runs.remembered import an_agent, experience, numbered
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies.further_distributions import SquashedGaussian
from workflow_rl.runs import replay_files
from workflow_rl.runs.agent_from_checkpoint import load_memory
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.training_state import TrainingState


def inodes(folder: Path) -> dict[str, int]:
    """Of each file: another one if it was written again."""
    return {file.name: file.stat().st_ino for file in folder.glob("*")}


@pytest.fixture
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need not be on the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.usefixtures("_in_a_hurry")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    capacity=st.integers(1, 60),
    saves=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
    ),
)
def test_what_is_written_is_read(
    capacity: int, saves: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run") / "memory"
    agent, again, parts = an_agent(capacity), an_agent(capacity), list[replay_files.Part]()
    for n_real, n_imagined, resumed in saves:
        experience(agent, n_real, n_imagined)
        files_before = inodes(folder)
        parts = replay_files.write(folder, agent.memory(), parts)
        assert inodes(folder).items() >= files_before.items()
        replay_files.remove_others(folder, parts)
        assert inodes(folder).keys() == {part.name for part in parts}
        assert all(part.end > agent.replay.oldest for part in parts if part.kind == "real")
        again.load_state_dict(agent.state_dict())
        replay_files.read_parts(
            folder, replay_files.parts_of([list(part) for part in parts]), again.memory()
        )
        assert all_of(again) == all_of(agent)
        if resumed:
            agent, again = again, agent
    for one in (agent, again):
        experience(one, 50, 2)
    assert all_of(again) == all_of(agent)


@pytest.mark.usefixtures("_in_a_hurry")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    capacity=st.integers(1, 1000),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    constant=st.booleans(),
)
def test_a_few_files_that_are_written_a_few_times(
    capacity: int, sizes: list[int], constant: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    agent, parts, n_written = an_agent(capacity), list[replay_files.Part](), 0
    for size in sizes:
        experience(agent, sizes[0] if constant else size)
        before, parts = parts, replay_files.write(folder, agent.memory(), parts)
        n_written += sum(part.end - part.first for part in set(parts) - set(before))
    n_steps = [part.end - part.first for part in parts]
    assert len(parts) <= 2 + math.log2(agent.replay.n_added)
    assert sum(n_steps) <= 2 * capacity + 50
    assert n_written <= agent.replay.n_added * (2 + math.log2(len(sizes)))


def test_a_file_is_no_larger_than_its_steps(tmp_path: Path) -> None:
    agent = an_agent(10_000)
    experience(agent, 4000, 100)
    parts = replay_files.write(tmp_path / "memory", agent.memory(), [])
    n_bytes = sum((tmp_path / "memory" / part.name).stat().st_size for part in parts)
    assert n_bytes < 4100 * (12 + 8 + 8 + 12 + 1) + 2000


def test_numbers_within_bounds_are_kept_too(tmp_path: Path) -> None:
    distribution = SquashedGaussian((-1.0, -1.0), (1.0, 1.0))
    agents = [
        MBPOAgent(MBPOConfig(hidden_sizes=(2,), imagined_share=0.0), 3, distribution, False, 0)
        for _ in range(2)
    ]
    action = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    agents[0].replay.add(numbered(0, 50)._replace(action=action))
    replay_files.read_parts(
        tmp_path, replay_files.write(tmp_path, agents[0].memory(), []), agents[1].memory()
    )
    assert all_of(agents[0]) == all_of(agents[1])
    choices = an_agent()
    with pytest.raises(ValueError, match="another environment"):
        replay_files.read_parts(
            tmp_path, replay_files.write(tmp_path, agents[0].memory(), []), choices.memory()
        )


def test_saving_and_loading_copy_no_more_than_a_chunk(tmp_path: Path) -> None:
    agent = an_agent(200_000, obs_dim=100)
    experience(agent, 40_000)
    experience(agent, 10_000, 10)
    n_bytes = sum(column.nbytes for column in agent.replay.steps)
    assert n_bytes > 2 * replay_files.CHUNK_BYTES
    again = an_agent(200_000, obs_dim=100)
    again.load_state_dict(agent.state_dict())

    def peak(do: Callable[[], Any]) -> tuple[int, Any]:
        tracemalloc.start()
        try:
            done = do()
            return tracemalloc.get_traced_memory()[1], done
        finally:
            tracemalloc.stop()

    of_writing, parts = peak(lambda: replay_files.write(tmp_path, agent.memory(), []))
    assert of_writing < 2.5 * replay_files.CHUNK_BYTES
    of_reading, _ = peak(lambda: replay_files.read_parts(tmp_path, parts, again.memory()))
    assert of_reading < n_bytes + 2.5 * replay_files.CHUNK_BYTES
    assert agent.state_dict().keys() == again.state_dict().keys()


def test_it_is_what_is_loaded_that_needs_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = an_agent(capacity=50)
    experience(agent, 50)
    parts = replay_files.write(tmp_path, agent.memory(), [])
    experience(agent, 30, 10)
    parts = replay_files.write(tmp_path, agent.memory(), parts)
    assert [part.end - part.first for part in parts] == [50, 30, 10]
    sizes = [(tmp_path / part.name).stat().st_size for part in parts]
    needed = sizes[0] * 20 // 50 + sizes[1] + sizes[2]
    for has, enough in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(os, "sysconf", lambda name, has=has: {"SC_PAGE_SIZE": 1}.get(name, has))
        if enough:
            replay_files.read_parts(tmp_path, parts, agent.memory())
            continue
        with pytest.raises(ValueError, match=r" 0\.0 GB of memory, and this machine has 0\.0 GB"):
            replay_files.read_parts(tmp_path, parts, agent.memory())


def test_agents_that_remember_nothing_need_no_files(tmp_path: Path) -> None:
    agent = make_agent(TrainConfig("async"))
    load_memory(agent, Checkpoint({}, agent.state_dict(), TrainingState()), tmp_path)
    assert not list(tmp_path.iterdir())
