"""Copies of envs at any moment go on exactly as the originals: none of theirs is left behind."""

import copy
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS

ROOT = Path(__file__).parents[4]
MAX_STEPS = 60
N_ENVS = 3


def pickled(env: Any) -> Any:
    return pickle.loads(pickle.dumps(env))


def snapshot(env: Any) -> Any:
    """Another env, with other episodes behind it, that goes on from the state of this one."""
    other = Cage2Env("mixed", MAX_STEPS, env.simulator, measures=True)
    other.reset(seed=99)
    play(other, random.Random(0), 7)
    other.load_state(pickled(env.save_state()))
    return other


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
    "save_state": snapshot,
}


def play(env: Any, actions: random.Random, n_steps: int) -> list[str]:
    """All that the steps return, costs included, and the resets between them."""
    trace = []
    is_vector = isinstance(env, CompiledVectorEnv)
    for _ in range(n_steps):
        numbers = [actions.randrange(len(ACTION_NAMES)) for _ in range(N_ENVS)]
        step = env.step(np.array(numbers) if is_vector else numbers[0])
        trace.append(repr([np.asarray(part).tolist() for part in step[:4]]) + repr(step[4]))
        if not is_vector:
            trace.append(str(env.describe(truth=True)))
        trace.append(str(env.action_masks().tolist()))
        if not is_vector and step[3]:
            trace.append(repr(env.reset()))
    return trace


def described(env: Any) -> list[Any]:
    try:
        if isinstance(env, CompiledVectorEnv):
            return [env.describe(i, truth=True) for i in range(N_ENVS)]
        return [env.describe(truth=True)]
    except gymnasium.error.ResetNeeded:
        return []


def assert_copies_go_on(env: Any, way: str, seed: int) -> None:
    chance = random.Random(seed)
    env.reset(seed=chance.randrange(1000))
    play(env, chance, chance.randrange(MAX_STEPS + 20))
    twin = WAYS[way](env)
    action_seed = chance.randrange(1000)
    assert described(twin) == described(env), (way, seed)
    # The copy plays first: what it shared with the original would show in the original.
    of_twin = play(twin, random.Random(action_seed), 50)
    assert of_twin == play(env, random.Random(action_seed), 50), (way, seed)


def envs_of(simulator: str) -> Any:
    if simulator == "vector":
        return CompiledVectorEnv(N_ENVS, "mixed", MAX_STEPS, measures=True)
    return Cage2Env("mixed", MAX_STEPS, simulator, measures=True)


KINDS = ("compiled", "vector", "cyborg", "published")
# A vector env makes no snapshots.
KINDS_AND_WAYS = [
    (kind, way) for kind in KINDS for way in WAYS if (kind, way) != ("vector", "save_state")
]


@pytest.mark.parametrize(("kind", "way"), KINDS_AND_WAYS)
def test_copies_go_on_as_the_original(kind: str, way: str) -> None:
    env = envs_of(kind)
    for seed in range(4 if kind in ("compiled", "vector") else 1):
        assert_copies_go_on(env, way, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_copies_go_on_as_the_originals() -> None:
    """Of all kinds, in all ways, each at a moment of its own."""
    envs = {kind: envs_of(kind) for kind in KINDS}
    for seed in range(1000):
        kind, way = KINDS_AND_WAYS[seed % len(KINDS_AND_WAYS)]
        assert_copies_go_on(envs[kind], way, seed)


@pytest.mark.parametrize("way", [copy.deepcopy, pickled])
@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_a_copy_of_a_made_env_and_of_a_fresh_one(simulator: str, way: Any) -> None:
    """With Gymnasium's wrappers around it; and before its first reset."""
    env = gymnasium.make("workflow_rl/CAGE2-v0", simulator=simulator)
    fresh = way(env)
    shown = [one.reset(seed=3)[0].tolist() for one in (env, fresh)]
    halfway = [[repr(one.step(7 * i % 145)) for i in range(30)] for one in (env, fresh)]
    rest = [[repr(one.step(5 * i % 145)) for i in range(30)] for one in (way(env), env, fresh)]
    assert shown[0] == shown[1]
    assert halfway[0] == halfway[1]
    assert rest[0] == rest[1] == rest[2]
    with pytest.raises(gymnasium.error.ResetNeeded):
        way(Cage2Env(simulator=simulator)).step(0)


@pytest.mark.parametrize("simulator", ["cyborg", "compiled"])
def test_a_pickle_goes_on_in_another_process(simulator: str, tmp_path: Path) -> None:
    """Whose private copy of CybORG is another, and which needs no Stable-Baselines3 for it."""
    file = tmp_path / "env.pickle"
    env = Cage2Env("RedMeanderAgent", simulator=simulator)
    env.reset(seed=5)
    play(env, random.Random(1), 20)
    file.write_bytes(pickle.dumps(env))
    program = (
        "import pickle, sys\n"
        f"env = pickle.load(open({str(file)!r}, 'rb'))\n"
        "print([(*map(repr, env.step(3 * i)), env.describe()) for i in range(40)])\n"
        "assert not {'torch', 'stable_baselines3'} & set(sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    expected = [(*map(repr, env.step(3 * i)), env.describe()) for i in range(40)]
    assert printed.stdout.strip() == repr(expected)


def test_a_snapshot_of_other_envs_is_refused_and_changes_nothing() -> None:
    env, longer = (Cage2Env(simulator="compiled", max_steps=n) for n in (100, 200))
    cyborg = Cage2Env(simulator="cyborg")
    for one in (env, longer, cyborg):
        one.reset(seed=1)
    twin = copy.deepcopy(env)
    for other in (longer, cyborg):
        with pytest.raises(ValueError, match="the snapshot is of simulator="):
            env.load_state(other.save_state())
    with pytest.raises(TypeError, match=r"Cage2Env\.save_state"):
        env.load_state(("no", "snapshot"))  # type: ignore[arg-type]
    assert play(env, random.Random(0), 20) == play(twin, random.Random(0), 20)


# --- Forks ---------------------------------------------------------------------------------------


def test_forks_share_the_past_and_differ_in_their_luck() -> None:
    env = Cage2Env("B_lineAgent", simulator="compiled")
    env.reset(seed=4)
    play(env, random.Random(1), 15)
    twin = copy.deepcopy(env)
    forks = env.fork(200, seed=7)
    assert forks.num_envs == 200
    masks = forks.action_masks()
    assert (masks == env.action_masks()).all()
    of_all = [forks.step(np.zeros(200, np.int64)) for _ in range(85)]
    rewards = np.stack([reward for _, reward, *_ in of_all])
    assert len(np.unique(rewards.sum(axis=0))) > 20
    # The seeds are i + 7, wherever else they are forked to.
    again = env.fork(1, seed=7 + 13)
    for obs, reward, *_ in of_all:
        own_obs, own_reward, *_ = again.step(np.zeros(1, np.int64))
        assert own_obs[0].tolist() == obs[13].tolist()
        assert own_reward[0] == reward[13]
    assert of_all[-1][3].all()
    with pytest.raises(gymnasium.error.ResetNeeded):
        forks.step(np.zeros(200, np.int64))
    # The original stays where it was.
    assert play(env, random.Random(0), 30) == play(twin, random.Random(0), 30)


def test_forks_without_a_seed_differ_every_time() -> None:
    env = Cage2Env("RedMeanderAgent", simulator="compiled")
    env.reset(seed=4)
    sums = set()
    for _ in range(4):
        forks = env.fork(2)
        sums.add(tuple(sum(forks.step(np.zeros(2, np.int64))[1] for _ in range(100)).tolist()))
    assert len(sums) == 4


def test_forks_may_reset_themselves() -> None:
    env = Cage2Env("RedMeanderAgent", simulator="compiled")
    env.reset(seed=1)
    env.step(40)
    forks = env.fork(4, seed=3, autoreset_mode="SameStep")
    assert forks.autoreset_mode == AutoresetMode.SAME_STEP
    assert [forks.step(np.zeros(4, np.int64))[3].all() for _ in range(99)] == [False] * 98 + [True]
    *_, infos = forks.step(np.zeros(4, np.int64))
    assert infos["red_agent"].tolist() == [RED_AGENTS.index("RedMeanderAgent")] * 4


def test_which_seeds_forks_may_have_and_which_envs_fork() -> None:
    env, cyborg = (Cage2Env(simulator=simulator) for simulator in ("compiled", "cyborg"))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.fork(2)
    env.reset(seed=2**63 - 1)
    env.fork(2, seed=2**63 - 2).step(np.zeros(2, np.int64))
    for n, seed, wrong in ((3, 2**63 - 2, 2**63), (2, -1, -1)):
        with pytest.raises(ValueError, match=f"seed={wrong}"):
            env.fork(n, seed=seed)
    cyborg.reset(seed=0)
    with pytest.raises(ValueError, match=r"only envs of 'compiled' fork.*deepcopy"):
        cyborg.fork(2)
