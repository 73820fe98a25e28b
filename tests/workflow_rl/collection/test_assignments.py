import itertools
import math

import numpy as np
import pytest

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import assignments as assignments_module
from workflow_rl.collection.assignments import (
    EpisodeAssignments,
    UnrollAssignments,
    first_positions,
)
from workflow_rl.collection.messages import Command, Request, Unroll
from workflow_rl.environments.episode import episode_spec


def answer(number: int) -> Trajectory:
    nothing = np.zeros(0)
    return Trajectory(
        number, "B_lineAgent", 0, nothing, nothing, nothing, nothing, nothing, False, True
    )


def sizes_of_blocks(n_specs: float, largest: int, smallest: int = 1, n_workers: int = 2):
    specs = (episode_spec(0, number, RED_AGENTS) for number in itertools.count())
    work = EpisodeAssignments(specs, n_specs, n_workers, largest, smallest)
    while (request := work.request(0)) is not None:
        yield len(request.payload)


def test_blocks_shrink_so_that_workers_end_together():
    # A quarter of what waits, at least one: 100 -> 25, 75 -> 19, 56 -> 14, ...
    assert list(sizes_of_blocks(100, 50))[:3] == [25, 19, 14]
    assert list(sizes_of_blocks(100, 50))[-3:] == [1, 1, 1]
    assert list(sizes_of_blocks(100, 10))[:2] == [10, 10]
    assert list(sizes_of_blocks(5, 1)) == [1] * 5
    # As many as a worker plays at once, if there are; endless work is as large as allowed.
    assert list(sizes_of_blocks(30, 1, smallest=12)) == [12, 12, 6]
    assert list(itertools.islice(sizes_of_blocks(math.inf, 7), 3)) == [7, 7, 7]


@pytest.mark.parametrize(
    ("n_specs", "fast", "is_asked"),
    [
        # 17 wait. The two fast ones need 8.5 s and the rest of an episode: worker 0 would take 10.
        (20, 1.0, False),
        # 27 wait: the fast ones need 13.5 s.
        (30, 1.0, True),
        # 7 and 11 wait: workers of less than an episode a second are judged alike.
        (10, 2.0, False),
        (14, 2.0, True),
        (4, 1.0, False),
    ],
)
def test_the_last_episodes_are_left_to_faster_workers(n_specs, fast, is_asked, monkeypatch):
    """Three workers have played an episode each: worker 0 in 10 s, the others in `fast`."""
    clock = [0.0]
    monkeypatch.setattr(assignments_module.time, "perf_counter", lambda: clock[0])
    specs = [episode_spec(0, number, RED_AGENTS) for number in range(n_specs)]
    work = EpisodeAssignments(specs, n_specs, n_workers=3)
    for worker in range(3):
        assert work.request(worker) is not None
    for now, worker in ((fast, 1), (fast, 2), (10.0, 0)):
        clock[0] = now
        work.answered(worker, [answer(number) for number in list(work._playing[worker])])
    assert (work.request(0) is not None) == is_asked
    if not is_asked:
        assert work.request(2) is not None, "whoever is fastest always takes what waits"
        work.lost(2)
        assert work.request(0) is not None, "worker 2 is another one now, of unknown pace"


def numbers(request: Request | None) -> list[int]:
    assert request.command is Command.PLAY
    return [spec.number for spec in request.payload]


def test_episodes_of_a_lost_worker_are_handed_out_again_before_all_others_and_only_those():
    specs = [episode_spec(0, number, RED_AGENTS) for number in range(8)]
    work = EpisodeAssignments(specs, 8, n_workers=2, smallest_block=3)
    assert numbers(work.request(0)) == [0, 1, 2]
    assert numbers(work.request(1)) == [3, 4, 5]
    assert not work.answered(0, [answer(1)])
    work.lost(0)
    assert work.answered(1, [answer(3), answer(5), answer(4)])
    assert numbers(work.request(1)) == [0, 2, 6]
    assert numbers(work.request(0)) == [7]
    assert work.request(1) is None


def unroll_assignments() -> UnrollAssignments:
    return UnrollAssignments(first_positions(0, RED_AGENTS, 5), n_workers=2, n_steps=7)


def test_every_worker_unrolls_its_own_envs_as_often_as_asked():
    work = unroll_assignments()
    assert work.request(0) is None
    work.add_rounds(2)
    first, second = work.request(0), work.request(0)
    assert first == (Command.UNROLL, Unroll(7, work.positions[::2]))
    assert second == (Command.UNROLL, Unroll(7, None))
    assert work.request(0) is None
    assert work.request(1) == (Command.UNROLL, Unroll(7, work.positions[1::2]))


def test_a_new_worker_is_told_where_the_envs_were_before_the_lost_unroll():
    work = unroll_assignments()
    work.add_rounds(2)
    work.request(1)
    env_1 = answer(1)._replace(action=np.array([5, 6]), truncated=False)
    env_3 = answer(3)
    assert work.answered(1, [env_1, env_3])
    work.request(1)
    work.lost(1)
    again = work.request(1)
    assert [slot.episode for slot in again.payload.positions] == [1, 8]
    env_1, env_3 = again.payload.positions
    assert (env_1.actions.tolist(), env_3.actions) == ([5, 6], None)
    assert work.request(1) is None


def test_workers_whose_envs_were_used_otherwise_are_told_where_they_were():
    work = unroll_assignments()
    work.add_rounds(math.inf)
    for worker in (0, 1):
        work.request(worker)
        assert work.request(worker).payload.positions is None
    work.forget()
    assert work.request(0).payload.positions == work.positions[::2]
    assert work.request(1).payload.positions == work.positions[1::2]
