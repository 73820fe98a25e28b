"""The steps that an agent remembers, in files: the same when they are read, few and small, whole at
any moment, and refused if they are not as they were saved."""

import hashlib
import math
import os
import pickle
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiny_runs import all_of, config_of, remembering_agent
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import SquashedGaussian
from workflow_rl.agents.replay import Transitions
from workflow_rl.errors import UserError
from workflow_rl.runs import checkpoint as checkpoint_file
from workflow_rl.runs import replay_files
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import load_checkpoint, load_memory
from workflow_rl.runs.run_dir import RunDir
from workflow_rl.runs.training_state import TrainingState

MODEL = {"model_members": 1, "model_elites": 1, "model_hidden_sizes": (2,)}
CONFIG = config_of(algorithm="mbpo", settings={**MODEL, "warm_up_steps": 9})


def an_agent(capacity: int = 100, obs_dim: int = 3) -> MBPOAgent:
    config = MBPOConfig(
        hidden_sizes=(2,), replay_capacity=capacity, warm_up_steps=0, imagined_share=0.0
    )
    return MBPOAgent(config, obs_dim, Categorical(9), bits=False, seed=0)


def numbered(first: int, count: int, obs_dim: int = 3) -> Transitions:
    """Steps whose every number is their own."""
    n = np.arange(first, first + count)
    obs = np.stack([n + k / 8 for k in range(obs_dim)], axis=1).astype(np.float32)
    return Transitions(obs, n % 9, n / 7, obs + 1, n % 2 == 0)


def experience(agent: MBPOAgent, n_real: int, n_imagined: int = 0) -> None:
    """So many steps more."""
    obs_dim = agent.obs_dim
    if n_real:
        agent.replay.add(numbered(agent.replay.n_added, n_real, obs_dim))
    if n_imagined:
        imagined = numbered(1000 + agent.imagined_steps, n_imagined, obs_dim)
        imagined = imagined._replace(terminated=imagined.terminated.astype(np.float32))
        agent.imagined = [*agent.imagined, imagined][-2:]
        agent.imagined_steps += n_imagined


def saved_run(path: Path) -> MBPOAgent:
    """A run that was saved once, and its agent."""
    agent = make_agent(CONFIG)
    with RunDir(path, CONFIG) as run:
        experience(agent, 70, 9)
        run.save("checkpoint.safetensors", checkpoint_of(agent, 1), agent.memory())
    return agent


def checkpoint_of(agent: MBPOAgent, updates: int) -> Checkpoint:
    agent.policy_version = updates
    return Checkpoint(CONFIG.to_dict(), agent.state_dict(), TrainingState(updates=updates))


def inodes(folder: Path) -> dict[str, int]:
    """Of each file: another one if it was written again."""
    return {file.name: file.stat().st_ino for file in folder.glob("*")}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    capacity=st.integers(1, 60),
    saves=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
    ),
)
def test_what_is_written_is_read(capacity, saves, tmp_path_factory):
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
        of_file = replay_files.parts_of([list(part) for part in parts])
        replay_files.read_parts(folder, of_file, again.memory())
        assert all_of(again) == all_of(agent)
        if resumed:
            agent, again = again, agent
    for one in (agent, again):
        experience(one, 50, 2)
    assert all_of(again) == all_of(agent)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    capacity=st.integers(1, 1000),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    constant=st.booleans(),
)
def test_a_few_files_that_are_written_a_few_times(capacity, sizes, constant, tmp_path_factory):
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


def test_a_file_is_no_larger_than_its_steps(tmp_path):
    agent = an_agent(10_000)
    experience(agent, 4000, 100)
    parts = replay_files.write(tmp_path / "memory", agent.memory(), [])
    n_bytes = sum((tmp_path / "memory" / part.name).stat().st_size for part in parts)
    assert n_bytes < 4100 * (12 + 8 + 8 + 12 + 1) + 2000


def test_numbers_within_bounds_are_kept_too(tmp_path):
    distribution = SquashedGaussian((-1.0, -1.0), (1.0, 1.0))
    agents = [
        MBPOAgent(MBPOConfig(hidden_sizes=(2,), imagined_share=0.0), 3, distribution, False, 0)
        for _ in range(2)
    ]
    action = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    agents[0].replay.add(numbered(0, 50)._replace(action=action))
    parts = replay_files.write(tmp_path, agents[0].memory(), [])
    replay_files.read_parts(tmp_path, parts, agents[1].memory())
    assert all_of(agents[0]) == all_of(agents[1])
    with pytest.raises(ValueError, match="another environment"):
        replay_files.read_parts(tmp_path, parts, an_agent().memory())


def test_saving_and_loading_copy_no_more_than_a_chunk(tmp_path):
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


def test_it_is_what_is_loaded_that_needs_room(tmp_path, monkeypatch):
    agent = an_agent(capacity=50)
    experience(agent, 50)
    parts = replay_files.write(tmp_path, agent.memory(), [])
    experience(agent, 30, 10)
    parts = replay_files.write(tmp_path, agent.memory(), parts)
    assert [part.end - part.first for part in parts] == [50, 30, 10]
    sizes = [(tmp_path / part.name).stat().st_size for part in parts]
    needed = sizes[0] * 20 // 50 + sizes[1] + sizes[2]

    def read_with(has: int) -> None:
        monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1}.get(name, has))
        replay_files.read_parts(tmp_path, parts, agent.memory())

    read_with(needed)
    with pytest.raises(ValueError, match=r" 0\.0 GB of memory, and this machine has 0\.0 GB"):
        read_with(needed - 1)


def test_agents_that_remember_nothing_need_no_files(tmp_path):
    agent = make_agent(TrainConfig("async"))
    load_memory(agent, Checkpoint({}, agent.state_dict(), TrainingState()), tmp_path)
    assert not list(tmp_path.iterdir())


def test_killed_at_any_moment_it_leaves_a_checkpoint_with_all_its_files(tmp_path, monkeypatch):
    path, moments = tmp_path / "run", tmp_path / "moments"
    agent = saved_run(path)
    before, n_moments = all_of(agent), 0

    def watched(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def watching(*arguments: Any, **options: Any) -> Any:
            keep_moment()
            result = call(*arguments, **options)
            keep_moment()
            return result

        return watching

    def keep_moment() -> None:
        nonlocal n_moments
        shutil.copytree(path, moments / str(n_moments))
        n_moments += 1

    with RunDir(path, CONFIG, latest(path)) as run:
        # All of the old files go: what they hold is part of larger ones, or was imagined long ago.
        for _ in range(2):
            experience(agent, 35, 4)
        for name in ("fsync", "replace", "unlink"):
            monkeypatch.setattr(os, name, watched(name))
        run.save("checkpoint.safetensors", checkpoint_of(agent, 2), agent.memory())
        monkeypatch.undo()
    assert n_moments >= 20
    states = [all_of(remembering_agent(moments / str(n))) for n in range(n_moments)]
    versions = [state[0]["policy_version"] for state in states]
    assert set(versions) == {1, 2}
    assert sorted(versions) == versions
    for version, state in zip(versions, states, strict=True):
        assert state == (before if version == 1 else all_of(agent))
    saved_again(moments / "0", remembering_agent(moments / "0"), 0)
    assert {file.name for file in (moments / "0" / "memory").iterdir()} == files_of(moments / "0")


def test_all_that_is_left_of_a_save_that_was_killed_is_removed_by_the_next(tmp_path):
    agent = saved_run(tmp_path)
    folder = tmp_path / "memory"
    for name in ("real-000000070-000000090.npy", "imagined-000000001-000000002.npy"):
        (folder / name).write_bytes(b"half")
    (folder / ".0123456789abcdef.writing").write_bytes(b"half")
    (folder / "notes.txt").write_text("the user's own")
    saved_again(tmp_path, agent, 20)
    assert {file.name for file in folder.iterdir()} == files_of(tmp_path) | {"notes.txt"}
    assert all_of(remembering_agent(tmp_path)) == all_of(agent)


def test_a_checkpoint_without_steps_is_no_latest_one(tmp_path):
    agent = saved_run(tmp_path)
    with RunDir(tmp_path, CONFIG, latest(tmp_path)) as run:
        run.save("best.safetensors", checkpoint_of(agent, 1))
    assert all_of(remembering_agent(tmp_path))  # Whose files are still there.
    shutil.copy(tmp_path / "best.safetensors", tmp_path / "checkpoint.safetensors")
    with pytest.raises(UserError, match=r"saved without the steps .*--init-from"):
        remembering_agent(tmp_path)


def test_the_steps_may_be_larger_than_any_checkpoint(tmp_path, monkeypatch):
    agent = make_agent(CONFIG)
    experience(agent, 5000)
    with RunDir(tmp_path, CONFIG) as run:
        run.save("checkpoint.safetensors", checkpoint_of(agent, 1), agent.memory())
    (part,) = latest(tmp_path).memory or ()
    monkeypatch.setattr(
        checkpoint_file, "MOST_BYTES", (tmp_path / "checkpoint.safetensors").stat().st_size
    )
    assert (tmp_path / "memory" / part.name).stat().st_size > 5 * checkpoint_file.MOST_BYTES
    assert all_of(remembering_agent(tmp_path)) == all_of(agent)


def latest(path: Path) -> Checkpoint:
    return load_checkpoint(path / "checkpoint.safetensors")


def saved_again(path: Path, agent: MBPOAgent, *more: int) -> None:
    """Go on with a run, and save after so many steps more, real and imagined."""
    with RunDir(path, CONFIG, latest(path)) as run:
        experience(agent, *more)
        run.save("checkpoint.safetensors", checkpoint_of(agent, 2), agent.memory())


def files_of(path: Path) -> set[str]:
    """Return the names of the files that a checkpoint needs."""
    return {part.name for part in latest(path).memory or ()}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_what_never_ends(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (Path.unlink, "No such file"),
        (flipped, "is damaged"),
        (lambda path: os.truncate(path, 100), "is damaged"),
        (replaced_by_a_pipe, "is no file"),
        (replaced_by_what_never_ends, "is no file"),
        (lambda path: os.truncate(path, 2**43), "this machine has"),
    ],
)
@pytest.mark.parametrize("kind", ["real", "imagined"])
def test_a_file_that_is_not_as_it_was_saved(kind, spoil, says, tmp_path):
    saved_run(tmp_path)
    file = next((tmp_path / "memory").glob(f"{kind}-*"))
    spoil(file)
    with pytest.raises(UserError, match=f"memory.*{says}") as caught:
        remembering_agent(tmp_path)
    assert "\n" not in str(caught.value)


ROWS = 70
RIGHT = numbered(0, ROWS, 52)


def as_saved(steps: Any) -> np.ndarray:
    row = [(name, column.dtype, column.shape[1:]) for name, column in steps._asdict().items()]
    rows = np.empty(ROWS, row)
    for name, column in steps._asdict().items():
        rows[name] = column
    return rows


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    "content",
    [
        as_saved(RIGHT)[:-1],
        as_saved(RIGHT)[:, None],
        as_saved(RIGHT)[["obs", "action", "reward", "next_obs"]],
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 51), np.float32))),
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 52), "U1"))),
        as_saved(RIGHT._replace(obs=np.zeros((ROWS, 52), complex))),
        as_saved(RIGHT._replace(action=np.full(ROWS, 145))),
        as_saved(RIGHT._replace(action=np.full(ROWS, -1))),
        as_saved(RIGHT._replace(action=np.zeros(ROWS))),
        as_saved(RIGHT._replace(reward=np.zeros((ROWS, 2)))),
        as_saved(RIGHT._replace(reward=np.zeros(ROWS, np.datetime64))),
        as_saved(RIGHT._replace(terminated=np.zeros(ROWS))),
        np.array([Hostile()] * ROWS),
        np.zeros(ROWS),
        b"",
        b"\x93NUMPY\x01\x00v\x00{'descr': __import__('os').system('touch ran')}",
        b"PK\3\4",
        pickle.dumps(Hostile()),
    ],
)
def test_a_file_with_something_else_in_it(content, tmp_path, monkeypatch):
    agent = make_agent(CONFIG)
    monkeypatch.chdir(tmp_path)
    part = replay_files.Part("real", 0, ROWS, "")
    path = tmp_path / part.name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    part = part._replace(digest=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"holds no steps|another environment"):
        replay_files.read_parts(tmp_path, [part], agent.memory())
    assert not (tmp_path / "ran").exists()


def test_files_that_are_not_all_there_is(tmp_path):
    agent = saved_run(tmp_path)
    saved_again(tmp_path, agent, 7, 3)
    parts = latest(tmp_path).memory or []
    assert [part[:3] for part in parts] == [
        *[("real", 0, 70), ("real", 70, 77)],
        *[("imagined", 0, 9), ("imagined", 9, 12)],
    ]
    told = r"not all of its agent's steps|imagined steps are missing"
    for some in (parts[1:], parts[::-1], parts[:3], [*parts, parts[-1]]):
        with pytest.raises(ValueError, match=told):
            replay_files.read_parts(tmp_path / "memory", some, agent.memory())


@pytest.mark.parametrize(
    "memory_of",
    [
        "real",
        [["real", 0, 5]],
        [["../real", 0, 5, "0" * 64]],
        [["real", 5, 5, "0" * 64]],
        [["real", -1, 5, "0" * 64]],
        [["real", 0, 2**53, "0" * 64]],
        [["real", 0, 5.0, "0" * 64]],
        [["real", "../../0", 5, "0" * 64]],
        [["real", 0, 5, "0" * 63]],
        [["real", 0, 5, 7]],
    ],
)
def test_a_checkpoint_that_names_no_files(memory_of, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint({}, {}, TrainingState(), memory=memory_of))
    with pytest.raises(UserError, match="not a checkpoint of this package"):
        load_checkpoint(path)


def test_steps_that_the_agent_does_not_remember_and_steps_of_no_bytes(tmp_path):
    parts = replay_files.parts_of([["other", 0, 5, "0" * 64]])
    with pytest.raises(ValueError, match="other"):
        replay_files.read_parts(tmp_path, parts, an_agent().memory())
    rows = np.zeros(5, [(name, "f4", (0,)) for name in Transitions._fields])
    path = tmp_path / replay_files.Part("real", 0, 5, "").name
    np.save(path, rows)
    part = replay_files.Part("real", 0, 5, hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="holds no steps"):
        replay_files.read_parts(tmp_path, [part], an_agent().memory())
